"""A leader that goes, or stops to answer, is followed by the other replica."""

from __future__ import annotations

import json
import os
import signal
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from tests.cluster.cloud_log import CREATE_POD
from tests.node.processes import process_of
from tests.node.release import OPERATOR, TEAM
from tests.node.steps import becomes_ready, within, works
from tests.support.eventually import eventually
from tests.support.manifests import gpu_pod

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.node.release import Release
    from tests.support.kube import Manifest
    from tests.support.workspace import Workspace

pytestmark = pytest.mark.asyncio(loop_scope="session")
_AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="the processes of Pods are not ours to kill")


async def test_a_leader_whose_pod_is_deleted_is_followed_by_the_other(examples: Release) -> None:
    leader = await examples.leads_soon()
    await examples.kube.delete("Pod", leader, OPERATOR)
    await examples.leads_soon(but=leader)
    await works(examples, "after-deletion")


@_AS_ROOT
async def test_a_leader_that_is_killed_is_followed(examples: Release) -> None:
    leader = await examples.leads_soon()
    before = await examples.restarts()
    os.kill(process_of(leader), signal.SIGKILL)
    counted = await eventually(
        examples.restarts, lambda now: now.get(leader, 0) > before[leader], what="it is started again"
    )
    assert counted[leader] == before[leader] + 1
    await examples.leads_soon()
    await works(examples, "after-kill")


@contextmanager
def frozen(pod: str) -> Iterator[None]:
    """The Pod's process does nothing for a while, unless the kubelet replaces it meanwhile."""
    process = process_of(pod)
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGCONT)


@_AS_ROOT
async def test_a_frozen_leader_is_followed_and_disturbs_nobody_when_it_wakes(examples: Release) -> None:
    leader = await examples.leads_soon()
    with frozen(leader):
        await examples.leads_soon(but=leader)
        await examples.kube.apply(within(TEAM, gpu_pod("while-frozen")))
        held = await becomes_ready(examples, "while-frozen")
    await works(examples, "after-frost")
    after = await becomes_ready(examples, "while-frozen")
    assert after["status"]["id"] == held["status"]["id"]
    await examples.leads_soon()


_SCANTY = {"requests": {"memory": "64Mi"}, "limits": {"memory": "112Mi"}}
"""An operator has 70 MB; the rest is less than /dev/shm can take."""
_FILL = """
with open("/dev/shm/filled", "wb", 0) as file:
    while True:
        file.write(bytes(2**20))
"""


async def _container(release: Release, pod: str) -> Manifest:
    (status,) = (await release.kube.get("Pod", pod, OPERATOR))["status"]["containerStatuses"]
    found: Manifest = status
    return found


def _is_scanty(container: Manifest) -> bool:
    return bool(container["resources"]["limits"]["memory"] == _SCANTY["limits"]["memory"])


async def test_a_leader_that_is_out_of_memory_in_mid_create_leaves_one_resource(
    team: Workspace, release: Release
) -> None:
    await team.becomes("CloudAccount", "default")
    leader = await release.leads_soon()
    scanty = {"spec": {"containers": [{"name": "operator", "resources": _SCANTY}]}}
    resize = ("patch", "pod", leader, "--namespace", OPERATOR, "--subresource", "resize", "--patch")
    await release.kubectl(*resize, json.dumps(scanty))
    await eventually(lambda: _container(release, leader), _is_scanty, what="its memory is limited")
    own = team.organization.id
    await team.cloud.control.fault(CREATE_POD, {"answerDelaySeconds": 60}, organizationId=own, count=1)
    await team.cloud.control.fault("webhook", {"delaySeconds": 30}, organizationId=own)
    await team.apply(gpu_pod("one"))
    await eventually(team.organization.billed, what="the cloud has made it, and has not said so")
    await release.kubectl.attempt("exec", "--namespace", OPERATOR, leader, "--", "python", "-c", _FILL)

    # The reason is OOMKilled or Error, by whether the limit of the container or that of its Pod was met first.
    ended = await eventually(
        lambda: _container(release, leader), lambda one: "terminated" in one["lastState"], what="the kernel ended it"
    )
    assert ended["lastState"]["terminated"]["exitCode"] == 128 + signal.SIGKILL
    await release.kube.delete("Pod", leader, OPERATOR)  # its next container would find /dev/shm as full
    # The webhook that tells of it is sent again after 10 s, and then after 60 s, if nobody leads yet.
    pod = await team.becomes("GpuPod", "one", within=240)
    assert [one["resourceId"] for one in await team.organization.billed()] == [pod["status"]["id"]]
