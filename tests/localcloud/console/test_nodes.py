"""The pages of nodes and workloads: what a node is said to be, who has its GPUs, and deployments beside pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.localcloud.support import deployments
from tests.localcloud.support.pages import page, text_of
from tests.localcloud.support.provider import set_status
from tests.localcloud.support.reservations import reserve
from tests.localcloud.support.workloads import act, new_pod, own_node, set_node

if TYPE_CHECKING:
    from tests.localcloud.support.server import Server


async def test_a_held_node_has_the_word_for_it_and_says_if_it_is_silent_too(fresh: Server) -> None:
    node_id = await own_node(fresh.seeded())
    await set_status(fresh.seeded(), node_id, "draining")
    card = text_of(await page(fresh, f"/console/nodes?node={node_id}"))
    assert f"draining {node_id}" in card
    assert "It does not report." not in card
    assert "1 draining" in card
    await set_node(fresh.seeded(), node_id, reporting=False)
    card = text_of(await page(fresh, f"/console/nodes?node={node_id}"))
    assert f"draining {node_id}" in card
    assert "It does not report." in card
    assert "Bring back" in card


async def test_gpus_that_are_reserved_and_idle_are_reserved_and_not_taken(fresh: Server) -> None:
    owner = fresh.seeded()
    node_id = await own_node(owner)
    await reserve(owner, node_id, [0, 1], owner)
    await new_pod(owner, gpuCount=2)
    for path in ("/", "/console/nodes"):
        shown = text_of(await page(fresh, path))
        assert "; 2 of " in shown, path
        assert "GPUs taken." in shown, path
    card = text_of(await page(fresh, f"/console/nodes?node={node_id}"))
    assert "4 of 8 GPUs free, 2 reserved" in card
    assert [card.count(word) for word in (" reserved ", " taken by ")] == [3, 2]


async def test_a_deployment_is_named_where_it_sits_and_listed_with_its_replicas(fresh: Server) -> None:
    owner = fresh.seeded()
    deployment = await deployments.running(owner, replicasDesired=2)
    replicas = (await deployments.get(owner, deployment))["replicas"]
    shown = (await page(fresh, f"/console/nodes?node={replicas[0]['nodeId']}")).raw.decode()
    assert ">echo</a> " in shown
    for path in ("/", "/console/workloads", f"/console/workloads?find={deployment}", "/console/workloads?find=echo"):
        listed = await page(fresh, path)
        assert f'<tr id="{deployment}"' in listed.raw.decode(), path
        assert "2 of 2 replicas healthy" in text_of(listed), path
        assert all(replica["id"] in text_of(listed) for replica in replicas), path
    assert "1 workload: 1 running." in text_of(await page(fresh, "/console/workloads"))
    assert deployment not in text_of(await page(fresh, "/console/workloads?status=stopped"))


async def test_of_a_large_node_each_workload_has_all_its_gpus_and_the_others_are_counted(fresh: Server) -> None:
    owner = fresh.seeded()
    node_id = await own_node(owner, count=80)
    ones = [await new_pod(owner) for _ in range(60)]
    across = await new_pod(owner, name="across", gpuCount=8)
    beyond = [await new_pod(owner) for _ in range(5)]
    card = text_of(await page(fresh, f"/console/nodes?node={node_id}"))
    assert "across 8 GPUs" in card
    assert beyond[2]["name"] in card
    assert "And 2 other workloads." in card
    for pod in (*ones, across):
        await act(owner, pod["id"], "terminate")
    card = text_of(await page(fresh, f"/console/nodes?node={node_id}"))
    assert "75 of 80 GPUs free" in card
    assert all(pod["name"] in card for pod in beyond)
