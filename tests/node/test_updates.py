"""The chart over time: updated, rolled back, uninstalled, told of other namespaces."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.node.release import DEPLOYMENT, OPERATOR, TEAM
from tests.node.steps import becomes_ready, within, works
from tests.support.chart import CHART, RELEASE
from tests.support.eventually import eventually
from tests.support.manifests import cloud_account, condition, gpu_pod

if TYPE_CHECKING:
    from tests.node.release import Release
    from tests.support.localcloud import Json
    from tests.support.workspace import Workspace

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_an_image_that_is_not_there_leaves_what_runs(examples: Release) -> None:
    await examples.leads_soon()
    wanted = ("upgrade", RELEASE, str(CHART), "--reuse-values", "--set", "image.tag=is-not-there")
    refused = await examples.try_helm(*wanted, "--wait", "--timeout", "15s")
    assert refused.returncode != 0
    await works(examples, "beside-a-bad-image")
    await examples.helm("rollback", RELEASE, "--wait", "--timeout", "90s")
    await works(examples, "after-rollback")


async def test_a_rolling_update_loses_no_webhook(team: Workspace, release: Release) -> None:
    before = {pod["metadata"]["name"] for pod in await release.pods()}
    subscribed = team.kube.looking_at("CloudAccount", "default")
    await eventually(subscribed, lambda item: condition(item, "WebhookReady").get("status") == "True", what="webhooks")
    await release.kubectl("rollout", "restart", "--namespace", OPERATOR, DEPLOYMENT)
    status = ("rollout", "status", "--namespace", OPERATOR, DEPLOYMENT, "--timeout=90s")
    rollout = asyncio.create_task(release.kubectl(*status, within=120))
    names: list[str] = []
    while not rollout.done():
        names.append(f"pod-{len(names)}")
        await team.apply(gpu_pod(names[-1]))
        if len(names) > 3:
            await team.kube.delete("GpuPod", names[-4])
        await asyncio.wait([rollout], timeout=0.5)
    await rollout
    assert not before & {pod["metadata"]["name"] for pod in await release.pods()}
    for name in names[:-3]:
        await team.is_gone("GpuPod", name)
    for name in names[-3:]:
        await team.becomes("GpuPod", name)

    async def unheard() -> list[Json]:
        attempts = await release.cloud.control.deliveries(organization=team.organization)
        heard = {one["deliveryId"] for one in attempts if one["statusCode"] in range(200, 300)}
        assert len({one["deliveryId"] for one in attempts}) > len(names)
        return [one for one in attempts if one["deliveryId"] not in heard]

    await eventually(unheard, lambda lost: not lost, what="every delivery is taken at last")


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
    key = (await examples.cloud.announcement())["apiKey"]
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


async def test_a_node_that_is_drained_keeps_one_replica_until_the_other_has_a_place(examples: Release) -> None:
    (node,) = [item["metadata"]["name"] for item in await examples.kube.list("Node")]
    drain = ("drain", node, f"--pod-selector=app.kubernetes.io/name={RELEASE}", "--delete-emptydir-data")
    try:
        refused = await examples.kubectl.attempt(*drain, "--timeout=8s")
        assert "would violate the pod's disruption budget" in refused.stderr
        assert sorted([pod["status"]["phase"] for pod in await examples.pods()]) == ["Pending", "Running"]
        await examples.leads_soon()
        await works(examples, "beside-a-drained-node")
        # Without the budget, nothing of the operator is left: its objects wait.
        await examples.kubectl(*drain, "--disable-eviction", "--timeout=80s", within=90)
        assert {pod["status"]["phase"] for pod in await examples.pods()} == {"Pending"}
        await examples.kube.apply(within(TEAM, gpu_pod("while-drained")))
    finally:
        await examples.kubectl("uncordon", node)
    await examples.leads_soon()
    await becomes_ready(examples, "while-drained")
    await examples.kubectl("rollout", "status", "--namespace", OPERATOR, DEPLOYMENT, "--timeout=90s", within=120)
    await works(examples, "after-uncordon")
