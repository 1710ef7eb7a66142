"""What whoever tries the operator on a real node sees first: it runs from its image, as the chart installs it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.node.release import OPERATOR, TEAM
from tests.support.eventually import eventually
from tests.support.manifests import condition

if TYPE_CHECKING:
    from tests.node.release import Release

pytestmark = pytest.mark.asyncio(loop_scope="session")


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
