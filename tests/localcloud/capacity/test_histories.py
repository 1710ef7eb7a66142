"""Whatever is placed, reserved, lent, lost and ended in whatever order: no unit is given twice, every count is right.

Each step is a real request; after it everything the cloud shows is compared with `capacity_model.py`. All latencies are
ten seconds, and so is every step of the clock, so that the model need not know what comes first within one of them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, TypeVar

import pytest
from hypothesis import Phase, given, note, settings
from hypothesis import strategies as st

from tests.localcloud.support.capacity_model import VM_COUNTS, Capacity, Node, Reserved, Unit, Wish
from tests.localcloud.support.capacity_world import TICK, Placed, Tenant, World
from tests.localcloud.support.keepalive import Line
from tests.localcloud.support.reservations import plus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tests.localcloud.support.pool import Pool

T = TypeVar("T")

MODEL = "h100"
HOLDING = {"deploying", "provisioning", "running", "stopping", "interrupted"}
SERVING = {"provisioning", "running", "degraded"}
FIRST_NODES = [(8, "enrolled"), (8, "own"), (2, "platform")]


class History:
    """One history: what may happen, in an order and with details that a seed decides, and what must then be so."""

    def __init__(self, world: World, seed: int) -> None:
        self.world, self.line = world, world.line
        self.random = Random(seed)
        self.capacity = Capacity()
        self.placed: dict[str, Placed] = {}
        self.lent: set[Unit] = set()
        self.looks = 0

    def run(self, steps: int) -> None:
        """Begin with nodes of each kind and a reservation, then let so many things happen."""
        for tenant, (gpu_count, kind) in zip(self.world.tenants, FIRST_NODES, strict=True):
            self.add_node(tenant, gpu_count, kind)
        self.units_are_reserved()
        for _ in range(steps):
            happening = self.random.choices(list(HAPPENINGS), list(HAPPENINGS.values()))[0]
            note(happening.__name__)
            before = replace(self.capacity)
            happening(self)
            self.check(before)

    def end(self) -> None:
        """Leave nothing behind that another history could see."""
        for cluster in self.of_kind("cluster"):
            self.ask(cluster.owner, "POST", f"/v1/clusters/{cluster.id}/terminate")
        self.world.empty()

    def node_comes(self) -> None:
        kind = self.random.choice(["platform", "own", "enrolled"])
        self.add_node(self.somebody(), self.random.randint(1, 8), kind)

    def node_changes(self) -> None:
        for node in self.some(self.capacity.nodes.values()):
            what = self.random.choice(["silent", "draining", "removed", *["reports", "online"] * 2])
            if what in {"silent", "reports"}:
                node.reporting = what == "reports"
                self.line.control("PATCH", f"/nodes/{node.id}", {"reporting": node.reporting})
            elif what == "removed":
                self.line.control("PATCH", f"/nodes/{node.id}", {"removed": True})
                del self.capacity.nodes[node.id]
                for reserved in [r for r in self.capacity.reservations.values() if r.node_id == node.id]:
                    del self.capacity.reservations[reserved.id]
            elif node.owner is not None:
                node.held = what == "draining"
                path = f"/v1/orgs/{node.owner}/provider/nodes/{node.id}"
                assert self.ask(self.tenant(node.owner), "PATCH", path, {"status": what}) == 200

    def pod_comes(self) -> None:
        tenant, gpu_count = self.somebody(), self.random.choice([1, 1, 2, 3, 8])
        body = {"image": "a", "gpuModelId": MODEL, "gpuCount": gpu_count}
        self.create(tenant, "pod", "/v1/pods", body, Wish(tenant.id, gpu_count))

    def vm_comes(self) -> None:
        tenant, gpu_count = self.somebody(), self.random.choice(VM_COUNTS[:3])
        spot, node_id = self.random.random() < 0.5, None
        for reserved in self.some(self.capacity.reservations.values()):
            if self.random.random() < 0.8:  # else it is rarely those who may that come
                tenant = self.tenant(self.random.choice([tenant.id, *reserved.allowed]))
                spot, node_id = reserved.released, reserved.node_id
        tier = "spot" if spot else "standard"
        body = {"name": self.world.next_name(), "gpuModelId": MODEL, "gpuCount": gpu_count, "tier": tier}
        wish = Wish(tenant.id, gpu_count, spot, node_id)
        self.create(tenant, "vm", f"/v1/orgs/{tenant.id}/vms/create", {**body, "nodeId": node_id}, wish)

    def cluster_comes(self) -> None:
        tenant, gpu_count, spot = self.somebody(), self.random.choice([1, 1, 2, 3]), self.random.random() < 0.5
        tier, replicas = "spot" if spot else "standard", self.random.randint(1, 3)
        body = {"name": self.world.next_name(), "gpuModelId": MODEL, "gpusPerReplica": gpu_count, "tier": tier}
        path = f"/v1/orgs/{tenant.id}/clusters/create"
        wish = Wish(tenant.id, gpu_count, spot)
        self.create(tenant, "cluster", path, {**body, "replicaCount": replicas}, wish, replicas)

    def one_stops(self) -> None:
        for one in self.some(self.of_kind("pod", "vm", status="running")):
            assert self.ask(one.owner, "POST", f"/v1/vms/{one.id}/stop") == 200

    def one_starts_again(self) -> None:
        for one in self.some(self.of_kind("pod", "vm", status="stopped")):
            node = self.capacity.nodes[one.home]
            fits = node.takes_on and self.capacity.room(one.wish, one.home) >= one.wish.gpu_count
            assert self.ask(one.owner, "POST", f"/v1/vms/{one.id}/restart") == (200 if fits else 409)

    def one_ends(self) -> None:
        for one in self.some(self.placed.values()):
            noun = "clusters" if one.kind == "cluster" else "vms"
            assert self.ask(one.owner, "POST", f"/v1/{noun}/{one.id}/terminate") == 200

    def cluster_scales(self) -> None:
        for cluster in self.some(self.of_kind("cluster")):
            to = self.random.randint(1, 4)
            grows = to <= cluster.replicas or self.capacity.fits(cluster.wish)
            path = f"/v1/clusters/{cluster.id}/scale"
            scaled = self.ask(cluster.owner, "POST", path, {"replicaCount": to}) == 200
            assert scaled == (cluster.status in SERVING and grows)
            cluster.replicas = to if scaled else cluster.replicas

    def units_are_reserved(self) -> None:
        for node in self.some(node for node in self.capacity.nodes.values() if node.owner is not None):
            every = list(self.capacity.units(node.id))
            free = [unit for unit in every if unit not in self.capacity.holders]
            wanted = free if free and self.random.random() < 0.7 else every
            units = self.random.sample(wanted, self.random.randint(1, len(wanted)))
            start = self.capacity.now + self.random.choice([0, 0, 0, TICK, 2 * TICK])
            length = self.random.choice([None, 2 * TICK, 4 * TICK])
            self.reserve(
                Reserved(
                    "",
                    node.id,
                    frozenset(number for _, number in units),
                    self.ids(self.random.randint(0, 2)),
                    self.ids(self.random.randint(0, 1)),
                    start,
                    None if length is None else start + length,
                )
            )

    def reservation_is_used(self) -> None:
        for reserved in self.some(self.capacity.reservations.values()):
            owner = self.capacity.nodes[reserved.node_id].owner or ""
            caller = self.random.choice([owner, owner, *reserved.managers, self.somebody().id])
            action = self.random.choice(["delete", *["reclaim" if reserved.released else "release"] * 3])
            self.act_on(reserved, self.tenant(caller), action)

    def spot_vm_is_ended(self) -> None:
        for vm in self.some(self.of_kind("vm", spot=True)):
            lenders = {vm.owner.id}
            for unit, holder in self.capacity.holders.items():
                reserved = self.capacity.reservation_of(unit)
                if holder == vm.id and reserved is not None and reserved.released:
                    lenders |= {self.capacity.nodes[unit[0]].owner or "", *reserved.managers}
            tenant = self.somebody()
            answered = self.ask(tenant, "POST", f"/v1/vms/{vm.id}/terminate")
            assert answered == (200 if tenant.id in lenders else 404)

    def time_passes(self) -> None:
        self.line.control("POST", "/clock", {"advanceSeconds": TICK})
        self.capacity.now += TICK

    def check(self, before: Capacity) -> None:
        """Read everything, and compare it with the model."""
        held = self.capacity.holders
        self.capacity.holders = self.shown_holders()
        self.read_statuses()
        for unit, holder in self.capacity.holders.items():
            if held.get(unit) == holder:
                continue
            wish = self.placed[holder].wish
            rightful = self.capacity.may_have(wish, unit) or before.may_have(wish, unit)
            assert rightful, f"{holder} was given {unit}"
            self.placed[holder].home = unit[0]
        self.check_holdings()
        self.check_what_was_lent(held)
        self.looks += 1
        self.check_counts(self.world.tenants[self.looks % len(self.world.tenants)])

    def check_holdings(self) -> None:
        holdings: dict[str, Counter[str]] = {one: Counter() for one in self.placed}
        for (node_id, _), holder in self.capacity.holders.items():
            holdings[holder][node_id] += 1
        for one in self.placed.values():
            nodes, count = holdings[one.id], one.wish.gpu_count
            if one.kind != "cluster":
                assert list(nodes.values()) == ([count] if one.status in HOLDING else []), (one, nodes)
                continue
            assert all(units % count == 0 for units in nodes.values()), (one, nodes)
            assert one.status in {*SERVING, "stopping"} or not nodes, (one, nodes)
            missing = one.replicas - nodes.total() // count
            assert missing >= 0, (one, nodes)
            if one.status in SERVING and missing:
                assert not self.capacity.fits(one.wish), f"{one} waits though there is room"

    def check_what_was_lent(self, held: dict[Unit, str]) -> None:
        for unit, holder in self.capacity.holders.items():
            if self.capacity.is_lent(unit):
                assert self.placed[holder].wish.spot, f"{holder} has {unit} of spot"
            elif held.get(unit) == holder and self.placed[holder].kind == "vm" and self.placed[holder].wish.spot:
                assert unit not in self.lent, f"{holder} kept {unit} that was reclaimed"
        every = [unit for node_id in self.capacity.nodes for unit in self.capacity.units(node_id)]
        self.lent = {unit for unit in every if self.capacity.is_lent(unit)}

    def check_counts(self, tenant: Tenant) -> None:
        _, _, answer = self.line.call(tenant.key, "GET", "/v1/gpu-availability")
        [shown] = [item for item in answer["items"] if item["gpuModelId"] == MODEL]
        assert shown["vm"].pop("tileLattice") == list(VM_COUNTS)
        for mode in ("vm", "cluster"):
            assert shown[mode] == self.capacity.availability(tenant.id, mode), mode
        _, _, answer = self.line.call(tenant.key, "GET", "/v1/pods/capacity")
        [pods] = [item for item in answer["items"] if item["gpuModelId"] == MODEL]
        assert (pods["freeUnits"], pods["maxGpuCount"]) == self.capacity.pods(tenant.id)

    def shown_holders(self) -> dict[Unit, str]:
        nodes = {node["id"]: node for node in self.line.control("GET", "/nodes")["items"]}
        assert set(nodes) == set(self.capacity.nodes)
        return {
            (node_id, number): unit["workloadId"]
            for node_id, node in nodes.items()
            for number, unit in enumerate(node["units"])
            if unit["workloadId"] is not None
        }

    def read_statuses(self) -> None:
        statuses: dict[str, str] = {}
        listed = {(one.owner.id, "clusters" if one.kind == "cluster" else "vms") for one in self.placed.values()}
        for organization, noun in listed:
            path = f"/v1/orgs/{organization}/{noun}?limit=200"
            _, _, page = self.line.call(self.tenant(organization).key, "GET", path)
            statuses |= {item["id"]: item["status"] for item in page["items"]}
        self.placed = {one.id: one for one in self.placed.values() if one.id in statuses}
        assert set(statuses) == set(self.placed)
        for one in self.placed.values():
            one.status = statuses[one.id]

    def create(
        self, tenant: Tenant, kind: str, path: str, body: dict[str, object], wish: Wish, replicas: int = 1
    ) -> None:
        status, headers, answer = self.line.call(tenant.key, "POST", path, body)
        assert (status == 200) == self.capacity.fits(wish), answer
        if status == 200:
            self.placed[answer["id"]] = Placed(answer["id"], kind, tenant, wish, replicas)
        elif wish.node_id is not None and not self.capacity.sees(wish):
            assert status == 404, answer
        elif status == 503:
            assert answer["code"] == ("NODE_AT_CAPACITY" if wish.node_id else "INSUFFICIENT_GPU_CAPACITY")
            assert int(headers["retry-after"]) > 0
        else:
            assert status == 422, answer
            assert wish.gpu_count > min(node.gpu_count for node in self.capacity.nodes.values())

    def add_node(self, tenant: Tenant, gpu_count: int, kind: str) -> Node:
        more = {"platform": {}, "own": {"orgId": tenant.id}, "enrolled": {"provisioningToken": tenant.enrolment}}[kind]
        made = self.line.control("POST", "/nodes", {"gpuModelId": MODEL, "gpuCount": gpu_count, **more})
        node = Node(made["id"], gpu_count, None if kind == "platform" else tenant.id, exclusive=kind == "own")
        self.capacity.nodes[node.id] = node
        return node

    def reserve(self, wanted: Reserved) -> Reserved:
        owner = self.tenant(self.capacity.nodes[wanted.node_id].owner or "")
        begun = self.line.control("GET", "/clock")["now"]
        status, _, made = self.line.call(
            owner.key,
            "POST",
            f"/v1/orgs/{owner.id}/provider/nodes/{wanted.node_id}/reservations",
            {
                "unitIds": [f"{wanted.node_id}-gpu{number}" for number in sorted(wanted.units)],
                "allowedOrgIds": sorted(wanted.allowed),
                "managingOrgIds": sorted(wanted.managers),
                "startsAt": plus(begun, wanted.start - self.capacity.now),
                "endsAt": None if wanted.end is None else plus(begun, wanted.end - self.capacity.now),
            },
        )
        assert (status == 200) == self.can_be_reserved(wanted), (status, made)
        if status != 200:
            return wanted
        reserved = replace(wanted, id=made["id"])
        self.capacity.reservations[reserved.id] = reserved
        return reserved

    def act_on(self, reserved: Reserved, tenant: Tenant, action: str) -> None:
        owner = self.capacity.nodes[reserved.node_id].owner
        path = f"/v1/orgs/{tenant.id}/provider/nodes/{reserved.node_id}/reservations/{reserved.id}"
        method = "DELETE" if action == "delete" else "POST"
        answered = self.ask(tenant, method, path if action == "delete" else f"{path}/{action}")
        allowed = {owner} if action == "delete" else {owner, *reserved.managers}
        expected = self.allowed(reserved, action) if tenant.id in allowed else 404
        assert answered == expected, (answered, expected)
        if answered == 204:
            del self.capacity.reservations[reserved.id]
        elif answered == 200:
            reserved.released = action == "release"

    def can_be_reserved(self, wanted: Reserved) -> bool:
        others = [r for r in self.capacity.reservations.values() if r.node_id == wanted.node_id]
        return not any((wanted.node_id, number) in self.capacity.holders for number in wanted.units) and not any(
            other.units & wanted.units and other.meets(wanted.start, wanted.end)
            for other in others
            if not other.is_over(self.capacity.now)
        )

    def allowed(self, reserved: Reserved, action: str) -> int:
        begun = reserved.has_begun(self.capacity.now)
        used = any((reserved.node_id, number) in self.capacity.holders for number in reserved.units)
        if action == "delete":
            return 409 if begun and used and not reserved.released else 204
        if action == "release":
            return 200 if begun and (reserved.released or not used) else 409
        return 200 if begun else 409

    def ask(self, tenant: Tenant, method: str, path: str, body: object = None) -> int:
        return self.line.call(tenant.key, method, path, body)[0]

    def of_kind(self, *kinds: str, status: str | None = None, spot: bool | None = None) -> list[Placed]:
        return [
            one
            for one in self.placed.values()
            if one.kind in kinds and status in {None, one.status} and spot in {None, one.wish.spot}
        ]

    def tenant(self, organization: str) -> Tenant:
        return next(tenant for tenant in self.world.tenants if tenant.id == organization)

    def somebody(self) -> Tenant:
        return self.random.choice(self.world.tenants)

    def ids(self, count: int) -> frozenset[str]:
        return frozenset(tenant.id for tenant in self.random.sample(self.world.tenants, count))

    def some(self, items: Iterable[T]) -> list[T]:
        """One of the items, or nothing where there is none."""
        every = list(items)
        return [self.random.choice(every)] if every else []


HAPPENINGS: dict[Callable[[History], None], int] = {
    History.vm_comes: 6,
    History.pod_comes: 2,
    History.cluster_comes: 3,
    History.one_stops: 2,
    History.one_starts_again: 3,
    History.one_ends: 3,
    History.cluster_scales: 1,
    History.units_are_reserved: 3,
    History.reservation_is_used: 6,
    History.spot_vm_is_ended: 2,
    History.node_comes: 1,
    History.node_changes: 2,
    History.time_passes: 6,
}
"""What may happen, and how often."""


@pytest.fixture(scope="module")
def world(pool: Pool) -> Iterator[World]:
    """A cloud of this module's own, which also lists VMs."""
    server = pool.take(("--ephemeral", "--clock", "frozen", "--list-vms"))
    line = Line(server.url)
    yield World(line)
    line.close()
    pool.give_back(server)


@settings(max_examples=15, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(seed=st.integers(0, 2**64))
def test_every_history_gives_each_unit_once_and_counts_what_is_free(world: World, seed: int) -> None:
    history = History(world, seed)
    try:
        history.run(40)
    finally:
        history.end()
