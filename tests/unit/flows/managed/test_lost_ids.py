"""A status from which somebody, or an admission webhook, removes the id: nothing is paid twice or ended."""

from __future__ import annotations

import pytest

from relay_operator.api.meta import ADOPT_ID
from relay_operator.engine.leftover import Fate
from relay_operator.engine.vanished import LABEL
from tests.unit.engine.apiserver import Json, part, status_fault
from tests.unit.flows.managed.leftovers import ACCOUNT
from tests.unit.flows.managed.world import NAMESPACE, OPERATOR_NAMESPACE, World


def _removed(world: World, *fields: str) -> None:
    world.server.edit("gpupods", NAMESPACE, "train", {"status": dict.fromkeys(fields)}, status=True)


@pytest.mark.parametrize("policy", ["Delete", "Orphan"])
async def test_an_id_that_somebody_removed_is_found_again(world: World, policy: str) -> None:
    world.apply(deletionPolicy=policy)
    await world.settle()
    for _ in range(3):
        _removed(world, "id")
        await world.wait(60)
        assert world.status().id == "pod-1"
    assert (world.pods.count("create"), world.pods.count("delete")) == (1, 0)


async def test_what_lost_its_id_and_is_not_there_any_more_is_created_once_more(world: World) -> None:
    world.apply()
    await world.settle()
    del world.pods.records["pod-1"]
    _removed(world, "id")
    await world.wait(1800, step=10)
    assert (world.status().id, world.pods.count("create")) == ("pod-2", 2)


async def test_an_api_server_that_drops_the_id_gets_one_create_and_few_writes(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    def drop(raw: Json) -> None:
        part(raw, "status").pop("id", None)

    world.server._validate = drop
    world.apply()
    await world.wait(300)
    assert (world.pods.count("create"), world.pods.count("delete")) == (1, 0)
    assert len(world.server.writes) < 40
    assert "and dropped the id pod-1 from it: see what admission webhooks change" in caplog.text
    await world.restart()
    await world.wait(300)
    assert (world.pods.count("create"), world.pods.count("delete")) == (1, 0)
    world.server._validate = lambda _: None
    await world.wait(60)
    assert world.status().id == "pod-1"


async def test_what_was_adopted_and_lost_its_id_holds_the_object_if_adoption_is_no_longer_allowed(world: World) -> None:
    adopted = world.pods.add("theirs")
    world.apply(annotations={ADOPT_ID: adopted.id})
    await world.wait(10)
    assert world.status().id == adopted.id
    world.account.share()
    _removed(world, "id")
    await world.wait(600, step=10)
    assert "'theirs' was adopted, is no longer in status and is not taken over" in world.stalled()
    world.delete()
    await world.wait(10)
    assert (world.pods.count("create"), world.pods.live) == (0, [adopted])
    (orphan,) = world.informer.vanished.leftovers.of(ACCOUNT)
    assert (orphan.fate, orphan.name) == (Fate.ORPHAN, "theirs")


@pytest.mark.parametrize("status", [400, 422])
async def test_what_is_found_again_is_not_ended_because_a_policy_refuses_its_status(world: World, status: int) -> None:
    world.apply(deletionPolicy="Orphan")
    await world.wait(2 * 3600, step=600)
    refusals = status_fault(status, times=10_000)
    world.server.faults.append(refusals)
    _removed(world, "id", "createToken", "cloudName", "specHash", "identity", "account")
    await world.restart()
    await world.wait(300)
    assert (world.status().id, world.pods.count("delete")) == (None, 0)
    world.server.faults.remove(refusals)
    await world.wait(60)
    assert (world.status().id, world.pods.count("create"), world.pods.count("delete")) == ("pod-1", 1, 0)


_UNREADABLE = {
    "no JSON": "{",
    "a number": "1",
    "no kind": "{}",
    "a list as kind": '{"kind": []}',
    "a list as type": '{"kind": "GpuPod", "status": {"conditions": [{"type": []}]}}',
    "a lone surrogate": '{"kind": "GpuPod", "metadata": {"name": "\\ud800", "uid": "u"}}',
    "too deep": '{"kind": "GpuPod", "spec": ' + "[" * 50_000 + "]" * 50_000 + "}",
}


@pytest.mark.parametrize("text", _UNREADABLE.values(), ids=_UNREADABLE.keys())
async def test_a_config_map_that_cannot_be_read_stops_nobody(world: World, text: str) -> None:
    metadata: Json = {"name": "vanished-x", "namespace": OPERATOR_NAMESPACE, "labels": {LABEL: "true"}}
    world.server.put("configmaps", {"kind": "ConfigMap", "metadata": metadata, "data": {"object.json": text}})
    world.apply()
    await world.restart()
    await world.informer.vanished.load()
    await world.wait(10)
    assert world.status().id == "pod-1"
    assert len(world.left_behind()) == 1
