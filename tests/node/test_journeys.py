"""What people do with the operator on a real node: it runs from its image, as the chart installs it."""

from __future__ import annotations

import os
import re
import signal
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from tests.node.processes import process_of
from tests.node.release import DEPLOYMENT, OPERATOR, TEAM
from tests.support.chart import CHART, RELEASE
from tests.support.eventually import eventually
from tests.support.manifests import cloud_account, condition, gpu_pod, ready

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.node.release import Release
    from tests.support.kube import Manifest

pytestmark = pytest.mark.asyncio(loop_scope="session")


def within(namespace: str, manifest: Manifest) -> Manifest:
    """The manifest, in this namespace."""
    return {**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}}


async def becomes_ready(release: Release, name: str, namespace: str = TEAM) -> Manifest:
    """Waits until the GpuPod is Ready."""
    look = release.kube.looking_at("GpuPod", name, namespace)
    return await eventually(look, ready, within=60, what=f"the GpuPod {name} is Ready") or {}


async def works(release: Release, name: str) -> None:
    """A GpuPod becomes Ready, and goes when it is deleted."""
    await release.kube.apply(within(TEAM, gpu_pod(name)))
    await becomes_ready(release, name)
    await release.kube.delete("GpuPod", name, TEAM)
    gone = release.kube.looking_at("GpuPod", name, TEAM)
    await eventually(gone, lambda item: item is None, within=60, what="it is gone")


async def test_the_examples_become_ready_and_complete(examples: Release) -> None:
    wait = ("wait", "--namespace", TEAM, "--timeout=60s")
    await examples.kubectl(*wait, "--for=condition=Ready", "cacct/default", "gpod/trainer", "gcl/llm", within=90)
    await examples.kubectl(*wait, "--for=condition=Complete", "inferencebatch/capitals", within=90)
    assert set((await examples.restarts()).values()) == {0}


async def test_the_scheduler_counts_the_pretended_gpus(release: Release) -> None:
    told = await release.kubectl("get", "nodes", "--output=jsonpath={.items[0].status.allocatable.nvidia\\.com/gpu}")
    assert told == "8"


async def test_webhooks_reach_the_leader_through_the_service(examples: Release) -> None:
    async def accepted() -> int:
        leader = await examples.leads_soon()
        path = f"/api/v1/namespaces/{OPERATOR}/pods/{leader}:9090/proxy/metrics"
        text = await examples.kubectl("get", "--raw", path)
        (count,) = re.findall(r'^gpurelay_webhook_deliveries_total\{outcome="accepted"\} (\S+)', text, re.MULTILINE)
        return int(float(count))

    look = examples.kube.looking_at("CloudAccount", "default", TEAM)
    await eventually(look, lambda item: condition(item, "WebhookReady").get("status") == "True", what="it subscribed")
    await eventually(accepted, within=60, what="deliveries arrive")


async def test_pods_may_do_nothing_but_run(release: Release) -> None:
    for pod in await release.pods():
        (container,) = pod["spec"]["containers"]
        context = container["securityContext"]
        assert context["readOnlyRootFilesystem"] is True
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True


async def test_the_image_can_install_nothing_and_is_small(release: Release) -> None:
    leader = await release.leads_soon()
    inside = ("exec", "--namespace", OPERATOR, leader, "--", "python", "-c")
    refused = await release.kubectl.attempt(*inside, "import pip")
    assert "No module named 'pip'" in refused.stderr
    counted = "import pathlib; print(sum(path.lstat().st_size for path in pathlib.Path('/opt/relay').rglob('*')))"
    assert int(await release.kubectl(*inside, counted)) < 150_000_000


async def test_a_leader_whose_pod_is_deleted_is_followed_by_the_other(examples: Release) -> None:
    leader = await examples.leads_soon()
    await examples.kube.delete("Pod", leader, OPERATOR)
    await examples.leads_soon(but=leader)
    await works(examples, "after-deletion")


async def test_a_leader_that_is_killed_is_followed(examples: Release) -> None:
    leader = await examples.leads_soon()
    before = await examples.restarts()
    os.kill(process_of(leader), signal.SIGKILL)
    counted = await eventually(
        examples.restarts, lambda now: now.get(leader, 0) > before[leader], within=60, what="it is started again"
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


async def test_an_image_that_is_not_there_leaves_what_runs(examples: Release) -> None:
    await examples.leads_soon()
    wanted = ("upgrade", RELEASE, str(CHART), "--reuse-values", "--set", "image.tag=is-not-there")
    refused = await examples.try_helm(*wanted, "--wait", "--timeout", "15s")
    assert refused.returncode != 0
    await works(examples, "beside-a-bad-image")
    await examples.helm("rollback", RELEASE, "--wait", "--timeout", "90s")
    await works(examples, "after-rollback")


async def test_a_rolling_update_loses_nothing(examples: Release) -> None:
    before = {pod["metadata"]["name"] for pod in await examples.pods()}
    await examples.kubectl("rollout", "restart", "--namespace", OPERATOR, DEPLOYMENT)
    await examples.kube.apply(within(TEAM, gpu_pod("in-the-midst")))
    status = ("rollout", "status", "--namespace", OPERATOR, DEPLOYMENT, "--timeout=90s")
    await examples.kubectl(*status, within=120)
    await becomes_ready(examples, "in-the-midst")
    assert not before & {pod["metadata"]["name"] for pod in await examples.pods()}


async def test_objects_stay_when_it_is_uninstalled_and_go_on_when_it_is_back(examples: Release) -> None:
    before = await becomes_ready(examples, "trainer")
    await examples.uninstall()
    left = await examples.kube.get("GpuPod", "trainer", TEAM)
    assert left["status"]["id"] == before["status"]["id"]
    await examples.install()
    await examples.leads_soon()
    await works(examples, "after-reinstall")
    assert (await becomes_ready(examples, "trainer"))["status"]["id"] == before["status"]["id"]


async def test_a_watched_namespace_ends_with_what_runs_in_it(examples: Release) -> None:
    await examples.kubectl("create", "namespace", "ending")
    await examples.install(watchNamespaces="{ending}")
    await examples.leads_soon()
    key = await examples.api_key()
    secret = ("create", "secret", "generic", "relay-api-key", f"--from-literal=api-key={key}")
    await examples.kubectl(*secret, "--namespace", "ending")
    account = cloud_account("", "")
    account["spec"] = {name: value for name, value in account["spec"].items() if value}
    await examples.kube.apply(within("ending", account))
    await examples.kube.apply(within("ending", gpu_pod("one")))
    await becomes_ready(examples, "one", "ending")
    await examples.kubectl("delete", "namespace", "ending", "--timeout=90s", within=120)
    await examples.install()
    await examples.leads_soon()
    await works(examples, "after-all")
