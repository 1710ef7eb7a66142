"""A hold of a node's owner on a real API server: it cordons the Node, and its release uncordons it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from relay_localcloud.runtimes.kubernetes.names import CORDONED_BY
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from tests.cluster.kubernetes_runtime.stage import Stage


async def set_status(stage: Stage, status: str) -> str:
    """The owner sets the status of the node; the status that the cloud answers."""
    (node,) = (await stage.organization.call("GET", "/_localcloud/nodes"))["items"]
    path = f"/v1/orgs/{stage.organization.id}/provider/nodes/{node['id']}"
    answer = await stage.organization.call("PATCH", path, {"status": status})
    return str(answer["status"])


async def cordon(stage: Stage) -> tuple[bool, bool]:
    """Whether the Node is cordoned, and whether it says that a cloud did it."""
    node = await stage.kube.get("Node", stage.product.lower())
    return node["spec"].get("unschedulable", False), CORDONED_BY in node["metadata"].get("annotations", {})


async def settled(stage: Stage, cordoned: bool) -> None:
    await eventually(lambda: cordon(stage), lambda seen: seen == (cordoned, cordoned), what=f"cordoned: {cordoned}")


@pytest.mark.parametrize("hold", ["draining", "maintenance"])
async def test_a_hold_cordons_the_node_whatever_restarts_meanwhile_and_the_release_uncordons_it(
    stage: Stage, hold: str
) -> None:
    await stage.has_room()
    organization = stage.organization
    await organization.call("PATCH", f"/_localcloud/orgs/{organization.id}", {"administrator": True})
    assert await set_status(stage, hold) == hold
    await settled(stage, cordoned=True)
    await stage.end()
    await stage.start()
    assert await set_status(stage, hold) == hold
    await settled(stage, cordoned=True)
    assert await set_status(stage, "online") == "online"
    await settled(stage, cordoned=False)
    await stage.has_room()


async def test_the_release_of_a_hold_leaves_the_cordon_of_an_administrator(stage: Stage) -> None:
    await stage.has_room()
    organization = stage.organization
    await organization.call("PATCH", f"/_localcloud/orgs/{organization.id}", {"administrator": True})
    await stage.node(cordoned=True)
    await set_status(stage, "maintenance")

    async def status() -> str:
        return await set_status(stage, "online")

    await eventually(status, lambda seen: seen == "draining", what="the administrator's cordon is a hold")
    assert await cordon(stage) == (True, False)
