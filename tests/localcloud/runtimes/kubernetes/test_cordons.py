"""A hold that the owner of a node sets cordons its Node, and its end lifts that cordon and no other."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

from relay_kube.errors import Conflict, KubeError, NotFound, Refused, Unavailable
from relay_kube.mirror import Mirror
from relay_localcloud.capacity.nodes import CORDONED, NODES
from relay_localcloud.providers import node_events
from relay_localcloud.runtimes.kubernetes import fleet
from relay_localcloud.runtimes.kubernetes.cordons import NODES as KIND
from relay_localcloud.runtimes.kubernetes.cordons import Cordons, change
from relay_localcloud.runtimes.kubernetes.names import CORDON, CORDONED_BY
from relay_localcloud.runtimes.kubernetes.nodes import Gpu, of_node
from relay_localcloud.runtimes.kubernetes.observed import Node
from relay_localcloud.runtimes.kubernetes.wanted import Terms
from tests.localcloud.runtimes.kubernetes.rows import GPU, MACHINE, rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pydantic import JsonValue

    from relay_kube.kube import JsonObject, ResourceType
    from relay_wire.provider import NodeStatus
    from tests.localcloud.runtimes.kubernetes.rows import Rows

TABLE = [Gpu("h100", {"gpu": "h100"})]
MINE = "mine"


@dataclass
class Api:
    """The Nodes of a cluster by name, and who asked for what; a `Kube` for the cordons alone."""

    raw: dict[str, dict[str, Any]] = field(default_factory=dict)
    writes: list[str] = field(default_factory=list)
    fails: list[KubeError] = field(default_factory=list)
    """What the next writes fail with; the last one goes on."""

    async def patch(self, kind: ResourceType, _: None, name: str, body: Mapping[str, JsonValue]) -> JsonObject:
        assert kind.path(None, name) == f"/api/v1/nodes/{name}"
        self.writes.append(name)
        if self.fails:
            raise self.fails[0] if len(self.fails) == 1 else self.fails.pop(0)
        merged = _merged(self.raw[name], body)
        if merged["metadata"]["resourceVersion"] != self.raw[name]["metadata"]["resourceVersion"]:
            raise Conflict(409, "Conflict", "the object has been modified")
        return self.put(name, merged)

    def put(self, name: str, raw: dict[str, Any]) -> dict[str, Any]:
        """Write a Node, as anybody may."""
        version = int(raw["metadata"].get("resourceVersion", 0)) + 1
        self.raw[name] = _merged(raw, {"metadata": {"resourceVersion": str(version)}})
        return self.raw[name]


def _merged(into: Any, patch: Any) -> Any:
    """A merge patch as RFC 7396 has it."""
    if not isinstance(patch, dict):
        return patch
    kept = dict(into) if isinstance(into, dict) else {}
    for key, value in patch.items():
        kept.pop(key, None)
        if value is not None:
            kept[key] = _merged(into.get(key) if isinstance(into, dict) else None, value)
    return kept


@dataclass
class House:
    """A cloud with a node, and the cluster that has its Node; `instance` is the cloud's."""

    room: Rows
    api: Api
    instance: str = MINE

    def __post_init__(self) -> None:
        self.mirror = Mirror(self.api, None, Node.model_validate, lambda _: None)  # type: ignore[arg-type]
        self.cordons = Cordons(self.api, self.mirror, self.instance)  # type: ignore[arg-type]

    def hears(self) -> Node:
        """The Node as the cloud's mirror has it by now."""
        self.mirror.wrote(self.api.raw[MACHINE.name])
        found = self.mirror.get("", MACHINE.name)
        assert found is not None
        return found

    async def looks(self) -> None:
        """Compare the Nodes with the nodes, as the reconciler does, and write what follows."""
        node = self.hears()
        with self.room.tx() as tx:
            fleet.look(tx, "cluster", [of_node(node, [], TABLE, self.instance)])
            self.cordons.want(fleet.held(tx, "cluster"))
        running = asyncio.create_task(self.cordons.run())
        for _ in range(10):
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait([running])

    def sets(self, status: NodeStatus) -> None:
        """The owner sets a status through the API."""
        with self.room.tx() as tx:
            (node,) = NODES.all(tx)
            node_events.set_by_owner(tx, node.id, status)

    def administrator(self, *, cordons: bool) -> None:
        """`kubectl cordon` or `uncordon`, which change nothing else."""
        spec = {"unschedulable": cordons or None}
        self.api.put(MACHINE.name, _merged(self.api.raw[MACHINE.name], {"spec": spec}))

    def node(self) -> tuple[bool, str | None]:
        """Whether the Node is cordoned, and who is said to have done it."""
        raw = self.api.raw[MACHINE.name]
        return raw.get("spec", {}).get("unschedulable", False), raw["metadata"].get("annotations", {}).get(CORDONED_BY)

    @property
    def hold(self) -> str | None:
        """The hold of the node in the cloud."""
        with self.room.tx() as tx:
            (node,) = NODES.all(tx)
        return node.hold


@pytest.fixture
def api() -> Api:
    """A cluster with the Node that a cloud of `rows` has."""
    made = {"creationTimestamp": "2026-11-24T10:00:00Z", "labels": {"gpu": "h100"}}
    whole = {GPU: "8", "cpu": "96", "memory": f"{800 * 1024**3}"}
    status = {"allocatable": whole, "conditions": [{"type": "Ready", "status": "True"}]}
    own = Api()
    own.put(MACHINE.name, {"metadata": {"name": MACHINE.name, "uid": "1", **made}, "status": status})
    return own


@pytest.fixture
def house(room: Rows, api: Api) -> House:
    """The cloud, which has looked at nothing yet."""
    return House(room, api)


@pytest.mark.parametrize("hold", ["draining", "maintenance"])
async def test_a_hold_cordons_with_one_write_and_its_release_uncordons_with_one(house: House, hold: NodeStatus) -> None:
    house.sets(hold)
    for _ in range(3):
        await house.looks()
        assert (house.node(), house.hold) == ((True, MINE), hold)
    assert house.api.writes == [MACHINE.name]
    house.sets("online")
    for _ in range(3):
        await house.looks()
        assert (house.node(), house.hold) == ((False, None), None)
    assert house.api.writes == [MACHINE.name] * 2


async def test_an_own_write_is_known_before_a_watch_tells_of_it(house: House) -> None:
    house.sets("draining")
    await house.looks()
    known = house.mirror.get("", MACHINE.name)
    assert known is not None
    assert change(known, MINE, is_held=True) is None


async def test_a_node_that_nobody_holds_is_not_written(house: House) -> None:
    await house.looks()
    house.administrator(cordons=True)
    await house.looks()
    assert (house.api.writes, house.node(), house.hold) == ([], (True, None), CORDONED)


async def test_a_cordon_of_an_administrator_outlives_a_hold_and_the_release_waits_for_it(house: House) -> None:
    house.administrator(cordons=True)
    house.sets("draining")
    await house.looks()
    house.sets("online")
    await house.looks()
    assert (house.api.writes, house.node(), house.hold) == ([], (True, None), CORDONED)
    house.administrator(cordons=False)
    await house.looks()
    assert (house.node(), house.hold) == ((False, None), None)


async def test_a_hold_cordons_once_an_administrator_has_lifted_another_cordon(house: House) -> None:
    house.administrator(cordons=True)
    house.sets("draining")
    await house.looks()
    house.administrator(cordons=False)
    await house.looks()
    assert house.node() == (True, MINE)


async def test_a_node_that_an_administrator_uncordons_stays_so_until_the_next_hold(house: House) -> None:
    house.sets("draining")
    await house.looks()
    house.administrator(cordons=False)
    for _ in range(2):
        await house.looks()
        assert (house.node(), house.hold, len(house.api.writes)) == ((False, MINE), "draining", 1)
    house.sets("online")
    await house.looks()
    assert (house.node(), house.hold) == ((False, None), None)
    house.sets("maintenance")
    await house.looks()
    assert house.node() == (True, MINE)


async def test_a_cordon_whose_annotation_an_administrator_removes_is_the_administrators(house: House) -> None:
    house.sets("draining")
    await house.looks()
    changed = _merged(house.api.raw[MACHINE.name], {"metadata": {"annotations": {CORDONED_BY: None}}})
    house.api.put(MACHINE.name, changed)
    house.sets("online")
    await house.looks()
    assert (house.node(), house.hold) == ((True, None), CORDONED)


async def test_a_cordon_that_an_administrator_made_meanwhile_does_not_become_the_clouds(house: House) -> None:
    house.sets("draining")
    house.hears()
    house.administrator(cordons=True)
    stale = house.mirror.get("", MACHINE.name)
    assert stale is not None
    patch = change(stale, MINE, is_held=True)
    assert patch is not None
    with pytest.raises(Conflict):
        await house.api.patch(KIND, None, MACHINE.name, patch)
    await house.looks()
    assert house.node() == (True, None)


@pytest.mark.parametrize("held", [True, False])
async def test_a_kill_after_the_write_or_before_it_loses_nothing(house: House, held: bool) -> None:
    house.sets("draining")
    await house.looks()
    if not held:
        house.sets("online")
    again = House(house.room, house.api)  # what the next process has: the rows, and the Node
    await again.looks()
    assert again.node() == ((True, MINE) if held else (False, None))
    assert len(house.api.writes) == (1 if held else 2)


async def test_a_node_that_the_cloud_sees_for_the_first_time_with_its_own_cordon_is_open(house: House) -> None:
    house.sets("draining")
    await house.looks()
    with house.room.tx() as tx:  # a backup from before the Node came
        fleet.KNOWN.remove(tx)
        NODES.remove(tx)
    await house.looks()
    assert (house.node(), house.hold) == ((False, None), None)


async def test_a_node_that_is_removed_from_the_cloud_is_not_left_cordoned(house: House) -> None:
    house.sets("draining")
    await house.looks()
    house.sets("removed")
    await house.looks()
    assert house.node() == (False, None)


async def test_a_node_that_does_not_report_or_is_not_offered_follows_its_hold_too(house: House) -> None:
    for other in ({"status": {"conditions": None}}, {"metadata": {"labels": {"gpu": "other"}}}):
        house.api.put(MACHINE.name, _merged(house.api.raw[MACHINE.name], other))
        house.sets("draining")
        await house.looks()
        assert house.node() == (True, MINE)
        house.sets("online")
        await house.looks()
        assert house.node() == (False, None)


async def test_of_two_clouds_on_a_cluster_each_lifts_its_own_cordon_and_sees_the_others(
    house: House, other: House
) -> None:
    house.sets("draining")
    await house.looks()
    await other.looks()
    assert other.hold == CORDONED
    other.sets("maintenance")
    await other.looks()
    assert (other.node(), other.api.writes) == ((True, MINE), [MACHINE.name])
    house.sets("online")
    await house.looks()
    await other.looks()
    await house.looks()
    assert (other.node(), house.hold) == ((True, "theirs"), CORDONED)
    other.sets("online")
    await other.looks()
    await house.looks()
    assert (house.node(), house.hold) == ((False, None), None)


@pytest.fixture
def other(api: Api) -> Iterator[House]:
    """Another cloud on the same cluster."""
    own = rows()
    yield House(own, api, "theirs")
    own.store.close()


async def test_a_missing_right_is_said_once_and_the_node_stays_held(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    house.api.fails = [Refused(403, "Forbidden", "nodes is forbidden: User cannot patch")]
    house.sets("draining")
    for _ in range(3):
        await house.looks()
    (said,) = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert "right to patch" in said.getMessage()
    assert "User cannot patch" in said.getMessage()
    assert (house.node(), house.hold) == ((False, None), "draining")
    house.api.fails = []
    await house.looks()
    assert house.node() == (True, MINE)


@pytest.mark.parametrize("error", [Unavailable(503, "", "away"), Conflict(409, "", ""), NotFound(404, "", "")])
async def test_what_fails_is_written_at_the_next_look(
    house: House, error: KubeError, caplog: pytest.LogCaptureFixture
) -> None:
    house.api.fails = [error]
    house.sets("draining")
    await house.looks()
    house.api.fails = []
    await house.looks()
    assert house.node() == (True, MINE)
    assert not [each for each in caplog.records if each.levelno >= logging.WARNING]


def test_what_is_on_a_held_node_may_be_created_again_there_and_on_an_administrators_cordon_it_waits(
    room: Rows,
) -> None:
    room.offer = replace(room.offer, terms=Terms(MINE, "fast"))
    pod_id = room.pod()

    def tolerated() -> list[list[str]]:
        specs: list[Any] = [each["spec"] for each in room.turn(pod_id).manifests if each["kind"] == "Pod"]
        return [[each["key"] for each in spec["tolerations"]] for spec in specs]

    ((*keys,),) = tolerated()
    assert CORDON not in keys
    House(room, Api()).sets("draining")
    assert tolerated() == [[*keys, CORDON]]
    room.node(cordoned=True)
    assert tolerated() == []


def test_the_clouds_are_told_of_a_hold_once_it_is_on_disk(room: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str | None] = []
    house = House(room, Api())
    monkeypatch.setattr(type(room), "nodes_changed", lambda _: told.append(house.hold))
    for status in ("draining", "online"):
        house.sets(status)
    assert told == ["draining", None]
