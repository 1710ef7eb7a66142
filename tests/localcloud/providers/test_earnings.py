"""What a provider's nodes earn, and when it is paid out; every cent that is used on them, and no other."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hypothesis import example, given, settings
from hypothesis import strategies as st
from sqlalchemy import insert

from relay_localcloud.capacity import nodes
from relay_localcloud.capacity.nodes import NewNode
from relay_localcloud.kernel import instants
from relay_localcloud.kernel.instants import SECOND
from relay_localcloud.kernel.store import Store
from relay_localcloud.kernel.tables import organizations
from relay_localcloud.money import billing
from relay_localcloud.money.accrual import SETTLED_AFTER, UNITS_PER_CENT
from relay_localcloud.money.billing import Billed
from relay_localcloud.providers.earnings import Payout, Stint, of_provider, statement
from tests.localcloud.support import clusters
from tests.localcloud.support.provider import community_node, earnings, set_status
from tests.localcloud.support.stints import START
from tests.localcloud.support.workloads import (
    GRACE,
    UNTIL_RUNNING,
    act,
    balance,
    own_node,
    remove_shared_nodes,
    running_pod,
    set_node,
    set_organization,
    spent,
)

if TYPE_CHECKING:
    from tests.localcloud.support.server import Organization, Server

HOUR = 3600
DAY = 86_400
HALF_YEAR = 180 * instants.DAY


async def by_node(provider: Organization) -> dict[str, int]:
    """The cents of each node, which must sum up to the total."""
    shown = await earnings(provider)
    items = {item["nodeId"]: item["cents"] for item in shown["items"]}
    assert sum(items.values()) == shown["totalCents"]
    return items


async def price(organization: Organization, model: str = "h100") -> int:
    """Cents an hour of one GPU."""
    gpu = (await organization.ok("GET", "/v1/pricing"))["gpu"]
    return next(int(entry["pricePerHourCents"]) for entry in gpu if entry["gpuModelId"] == model)


async def test_whoever_has_no_nodes_earns_nothing(organization: Organization) -> None:
    assert await earnings(organization) == {"totalCents": 0, "items": [], "payouts": []}


async def test_earnings_take_a_key_that_reads_bills(provider: Organization) -> None:
    create = "/v1/orgs/{org}/api-keys/create"
    paths = {
        "/v1/orgs/{org}/provider/earnings": {"billing:read", "org:write"},
        "/v1/orgs/{org}/provider/nodes": {"org:write"},
    }
    for scope in ("billing:read", "org:write", "vms:write", "clusters:read", "inference"):
        key = (await provider.ok("POST", create, {"name": scope, "scopes": [scope]}))["key"]
        for path, scopes in paths.items():
            answered = 200 if scope in scopes else 403
            assert (await provider.call("GET", path, key=key)).status == answered, (scope, path)


async def test_a_node_earns_what_running_costs_while_it_runs(
    provider: Organization, organization: Organization
) -> None:
    node_id = await community_node(provider)
    pod_id = await running_pod(organization, gpuCount=2)
    rate = 2 * await price(organization)
    await provider.server.advance(HOUR)
    assert await by_node(provider) == {node_id: rate}
    await act(organization, pod_id, "stop")
    await provider.server.advance(DAY)
    assert await by_node(provider) == {node_id: rate}
    await act(organization, pod_id, "restart")
    await provider.server.advance(UNTIL_RUNNING + HOUR // 2)
    assert await by_node(provider) == {node_id: rate + rate // 2}
    assert await spent(organization) == rate + rate // 2


async def test_interruption_and_removal_end_the_earning_and_keep_the_earned(
    provider: Organization, organization: Organization
) -> None:
    first, second = await community_node(provider, gpuCount=1), await community_node(provider, gpuCount=1)
    for _ in range(2):
        await running_pod(organization)
    await set_node(provider, first, reporting=False)
    await provider.server.advance(GRACE)
    lost = await by_node(provider)
    await provider.server.advance(HOUR)
    after = await by_node(provider)
    assert (after[first], after[second] > lost[second]) == (lost[first], True)
    for node_id in (first, second):
        await set_status(provider, node_id, "removed")
    await provider.server.advance(DAY)
    assert await by_node(provider) == after
    assert await spent(organization) == sum(after.values())


async def test_every_replica_earns_for_its_own_node(provider: Organization, organization: Organization) -> None:
    own = [await community_node(provider, gpuCount=1) for _ in range(3)]
    await clusters.running(organization, replicaCount=3, gpusPerReplica=1)
    await provider.server.advance(HOUR)
    rate = await price(organization)
    assert await by_node(provider) == dict.fromkeys(own, rate)


async def test_nobody_earns_by_the_nodes_of_others(provider: Organization, organization: Organization) -> None:
    await provider.server.ok("POST", "/nodes", {"gpuModelId": "h100", "gpuCount": 1})
    own = await own_node(organization, "a100", count=1)
    await running_pod(organization)
    await running_pod(organization, gpuModelId="a100")
    await organization.ok("POST", "/v1/orgs/{org}/vms/create", {"name": "cpu"})
    await provider.server.advance(HOUR)
    assert await earnings(provider) == {"totalCents": 0, "items": [], "payouts": []}
    assert list(await by_node(organization)) == [own]


async def test_a_month_is_paid_out_when_its_usage_is_settled(
    provider: Organization, organization: Organization
) -> None:
    server = provider.server
    await set_organization(organization, balanceCents=10**9)
    await community_node(provider)
    year = int((await server.advance(0))[:4]) + 1
    await server.ok("POST", "/clock", {"set": f"{year}-01-31T22:59:58Z"})
    pod_id = await running_pod(organization)
    await server.ok("POST", "/clock", {"set": f"{year}-02-01T00:09:59Z"})
    assert (await earnings(provider))["payouts"] == []
    await server.advance(1)
    rate = await price(organization)
    [payout] = (await earnings(provider))["payouts"]
    assert payout == {
        "id": payout["id"],
        "amountCents": rate,
        "periodStart": f"{year}-01-01T00:00:00.000000Z",
        "periodEnd": f"{year}-02-01T00:00:00.000000Z",
        "paidAt": f"{year}-02-01T00:10:00.000000Z",
    }
    await act(organization, pod_id, "terminate")
    await server.ok("POST", "/clock", {"set": f"{year}-04-01T00:10:00Z"})
    shown = await earnings(provider)
    assert [entry["periodStart"][5:7] for entry in shown["payouts"]] == ["02", "01"], "newest first, none of nothing"
    assert shown["payouts"][1] == payout
    assert sum(entry["amountCents"] for entry in shown["payouts"]) == shown["totalCents"] == rate + rate // 6


FUNDS = 10**9
"""What a customer has at first, by one credit, the oldest transaction."""

STEPS = st.one_of(
    st.tuples(st.sampled_from(["create", "stop", "restart", "terminate"]), st.integers(0, 4)),
    st.tuples(st.sampled_from(["enrol", "draining", "online", "removed", "silent", "reporting"]), st.integers(0, 2)),
    st.tuples(st.just("advance"), st.one_of(st.integers(0, 10), st.integers(0, 40 * DAY))),
)


@dataclass
class History:
    """A customer whose every cent is earned by one provider, since nobody else has nodes."""

    provider: Organization
    customer: Organization
    nodes: list[str]
    vms: list[str] = field(default_factory=list)

    async def step(self, kind: str, number: int) -> None:
        """One thing that happens, or is refused."""
        match kind:
            case "create":
                body = {"name": f"v{len(self.vms)}", "gpuModelId": "l40s", "gpuCount": 1}
                made = await self.customer.call("POST", "/v1/orgs/{org}/vms/create", body)
                self.vms += [made.body["id"]] if made.status == 200 else []
            case "stop" | "restart" | "terminate":
                for vm_id in self.vms[number:][:1]:
                    await self.customer.call("POST", f"/v1/vms/{vm_id}/{kind}")
            case "enrol":
                self.nodes.append(await community_node(self.provider, gpuModelId="l40s"))
            case "draining" | "online" | "removed":
                path = f"/v1/orgs/{{org}}/provider/nodes/{self.nodes[number % len(self.nodes)]}"
                await self.provider.call("PATCH", path, {"status": kind})
            case "silent" | "reporting":
                path = f"/nodes/{self.nodes[number % len(self.nodes)]}"
                await self.provider.server.control("PATCH", path, {"reporting": kind == "reporting"})
            case _:
                await self.provider.server.advance(number)

    async def check(self) -> None:
        """All that was ever used was earned, and what was settled was paid out in the same instants."""
        shown, has = await earnings(self.provider), await balance(self.customer)
        assert sum(item["cents"] for item in shown["items"]) == shown["totalCents"]
        assert shown["totalCents"] == FUNDS - has["availableCents"]
        settled = [(-item["amountCents"], item["createdAt"]) for item in has["transactions"] if item["type"] == "usage"]
        assert [(payout["amountCents"], payout["paidAt"]) for payout in shown["payouts"]] == settled


@settings(max_examples=15)
@given(steps=st.lists(STEPS, min_size=1, max_size=16))
def test_every_cent_of_any_history_is_earned_and_paid_out_once(server: Server, steps: list[tuple[str, int]]) -> None:
    asyncio.run(_play(server, steps))


async def _play(server: Server, steps: list[tuple[str, int]]) -> None:
    await remove_shared_nodes(server)
    provider, customer = await server.organization(), await server.organization(balanceCents=FUNDS)
    await set_organization(provider, provider=True)
    history = History(provider, customer, [await community_node(provider, gpuModelId="l40s")])
    for kind, number in [("create", 0), ("advance", UNTIL_RUNNING), *steps]:
        await history.step(kind, number)
        await history.check()


def test_a_part_of_a_cent_is_carried_to_the_next_payout() -> None:
    month = 31 * instants.DAY
    halves = [Stint("node_1", month - SECOND, month, 1800), Stint("node_1", month, month + SECOND, 1800)]
    before, after = (
        statement(["node_1"], halves, at) for at in (month + SETTLED_AFTER, month + 28 * instants.DAY + SETTLED_AFTER)
    )
    assert (before.total_cents, before.payouts) == (1, [])
    assert [(payout.start, payout.cents) for payout in after.payouts] == [(month, 1)]


STINTS = st.builds(
    Stint,
    st.sampled_from(["node_1", "node_2", "node_3"]),
    st.integers(0, 2 * HALF_YEAR),
    st.one_of(st.none(), st.integers(0, 3 * HALF_YEAR)),
    st.integers(0, 100_000),
)


@given(st.lists(STINTS, max_size=20), st.integers(0, 3 * HALF_YEAR), st.integers(0, 100 * instants.DAY))
def test_items_sum_up_and_payouts_never_change_and_never_pay_more(stints: list[Stint], now: int, later: int) -> None:
    ids = ["node_1", "node_2", "node_3"]
    began = [stint for stint in stints if stint.ended_at is None or stint.started_at <= stint.ended_at]
    shown = statement(ids, began, now)
    units = sum(
        max(0, min(now if s.ended_at is None else s.ended_at, now) - s.started_at) * s.rate_cents for s in began
    )
    assert shown.total_cents == units // UNITS_PER_CENT
    assert sum(shown.cents_by_node.values()) == shown.total_cents
    assert list(shown.cents_by_node) == ids
    paid = shown.payouts
    assert sum(payout.cents for payout in paid) <= shown.total_cents
    assert all(payout.cents > 0 and payout.paid_at == payout.end + SETTLED_AFTER <= now for payout in paid)
    if paid:
        last = statement(ids, began, paid[-1].end)
        assert sum(payout.cents for payout in paid) == last.total_cents
    assert statement(ids, began, now + later).payouts[: len(paid)] == paid


TIME_OF_A_REPORT = st.integers(0, 100 * instants.DAY)
REPORTS = st.tuples(TIME_OF_A_REPORT, st.integers(0, 40 * instants.DAY), st.sampled_from(["a", "b"]))
"""When something becomes known, how long after it happened, and whose run began or ended."""


@settings(deadline=None)
@given(st.lists(REPORTS, max_size=12), st.lists(TIME_OF_A_REPORT, max_size=4))
@example([(41 * instants.DAY, 11 * instants.DAY, "a")], [41 * instants.DAY - 1])
@example([(0, 0, "a"), (41 * instants.DAY, 11 * instants.DAY, "a")], [41 * instants.DAY - 1])
def test_what_becomes_known_later_changes_no_payout_that_was_made(
    reports: list[tuple[int, int, str]], reads: list[int]
) -> None:
    store = Store.ephemeral()
    with store.transaction(at=START) as tx:
        tx.connection.execute(insert(organizations).values(id="org", name="org", created_at=START))
        node_id = nodes.add_node(tx, NewNode("h100", 8, "vie", "eu", 64, organization_id="org"))
    runs: list[tuple[int, int]] = []
    current: dict[str, int] = {}
    paid: list[Payout] = []
    events = [*reports, *((at, 0, "") for at in reads), (101 * instants.DAY, 0, "")]
    for offset, late, holder in sorted(events):
        now = START + offset
        with store.transaction(at=now) as tx:
            if holder in current:
                billing.stop_billing(tx, "org", holder, ended_at=now - late)
                runs.append((current.pop(holder), now - late))
            elif holder:
                billed = Billed("org", holder, holder, "pod", holder, "h100", 7, node_id)
                billing.start_billing(tx, billed, now - late, wanted_at=0)
                current[holder] = now - late
            shown = of_provider(tx, "org", now)
        assert shown.payouts[: len(paid)] == paid
        paid = shown.payouts
        ran = sum(max(0, ended - began) for began, ended in runs) + sum(now - began for began in current.values())
        assert shown.total_cents == 7 * ran // UNITS_PER_CENT
    store.close()


async def test_what_was_earned_and_paid_outlasts_the_records_of_it(
    provider: Organization, organization: Organization
) -> None:
    server = provider.server
    await set_organization(organization, balanceCents=10**9)
    await community_node(provider)
    ended, going = await running_pod(organization), await running_pod(organization)
    await server.advance(40 * DAY)
    await act(organization, ended, "terminate")
    await server.advance(DAY)
    has, shown = await balance(organization), await earnings(provider)

    async def resources() -> set[str]:
        rows = (await server.ok("GET", "/export"))["tables"]["usage_records"]
        return {row["resource_id"] for row in rows if row["organization_id"] == organization.id}

    assert await resources() == {ended, going}
    await act(organization, going, "terminate")
    await server.advance(399 * DAY - 3601)
    assert await resources() == {ended, going}
    settled = await earnings(provider)
    assert (settled["items"], settled["totalCents"]) == (shown["items"], shown["totalCents"])
    await server.advance(3601)
    assert await resources() == {going}
    assert await earnings(provider) == settled
    await server.advance(DAY)
    assert await resources() == set()
    assert await earnings(provider) == settled
    assert (await balance(organization))["availableCents"] == has["availableCents"]
    restarted = await running_pod(organization)
    await server.advance(HOUR)
    await act(organization, restarted, "terminate")
    assert (await earnings(provider))["totalCents"] == settled["totalCents"] + await price(organization)
