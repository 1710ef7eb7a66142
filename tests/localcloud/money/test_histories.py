"""Whatever happens in whatever order, the balance and the usage are what a straightforward computation says."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from relay_localcloud.kernel.instants import DAY, HOUR, SECOND
from tests.localcloud.support.billing import NOTIFIED, deposit
from tests.localcloud.support.workloads import GRACE, UNTIL_RUNNING, act, balance, own_node, usage

if TYPE_CHECKING:
    from tests.localcloud.support.server import Organization, Server

FUNDS = 10**9
PODS = 6
LOSS = GRACE * SECOND
LOST_FOR_GOOD = LOSS + 7 * DAY
STARTED = UNTIL_RUNNING * SECOND

SIZES = st.sampled_from([("small", 4), ("medium", 8), ("large", 16)])
STEPS = st.one_of(
    st.tuples(st.just("create"), SIZES),
    st.tuples(st.just("pod"), st.integers(1, 8)),
    st.tuples(st.just("node"), st.integers(0, 2 * LOSS)),
    st.tuples(st.sampled_from(["stop", "restart", "terminate"]), st.integers(0, 9)),
    st.tuples(st.just("deposit"), st.integers(1000, 50_000)),
    st.tuples(st.just("advance"), st.one_of(st.integers(0, 10 * SECOND), st.integers(0, 40 * DAY))),
    st.tuples(
        st.just("month"), st.sampled_from([offset * SECOND for offset in (-3, -1, 0, 1, 597, 599, 600, 601, 86_400)])
    ),
)


@dataclass(eq=False)
class Stint:
    """A time in which something runs; `end` is None while it does."""

    start: int
    rate: int
    end: int | None = None

    def within(self, since: int, until: int) -> int:
        """Its microseconds in [since, until)."""
        return max(0, min(until if self.end is None else self.end, until) - max(self.start, since))


@dataclass
class Machine:
    """A VM or a pod by its last stint, which begins when it runs; pods are on the node that may be lost."""

    id: str
    rate: int
    stint: Stint
    pod: bool = False
    gone: bool = False
    interrupted: bool = False

    def state(self, now: int) -> str:
        """What the cloud must show."""
        if self.interrupted:
            return "interrupted"
        if self.stint.end is None:
            return "deploying" if now < self.stint.start else "running"
        return "stopping" if now < self.stint.end + SECOND else "stopped"


@dataclass
class Books:
    """The straightforward computation, in microseconds of the clock."""

    now: int
    stints: list[Stint] = field(default_factory=list)
    credits: list[tuple[int, int]] = field(default_factory=list)

    def units(self, since: int, until: int) -> int:
        """Cent-microseconds an hour, used in [since, until)."""
        return sum(stint.rate * stint.within(since, until) for stint in self.stints)

    @property
    def month(self) -> int:
        """When the month of `now` began."""
        return month_of(self.now)

    @property
    def settled_cents(self) -> int:
        """What all settlements so far took, with every rest carried."""
        until = self.month if self.now >= self.month + 600 * SECOND else month_of(self.month - 1)
        return self.units(0, until) // HOUR

    def balance(self) -> dict[str, Any]:
        """The balance but for its transactions."""
        credited = sum(cents for at, cents in self.credits if at <= self.now)
        used = self.units(0, self.now) // HOUR
        available = FUNDS + credited - used
        return {
            "balanceCents": FUNDS + credited - self.settled_cents,
            "availableCents": available,
            "accruedUsageCents": used - self.settled_cents,
            "currentMonthUsageCents": self.units(self.month, self.now) // HOUR,
            "minDepositCents": 1000,
            "monthlySpendLimitCents": None,
        }

    def usage(self) -> dict[str, Any]:
        """The usage but for its breakdown."""
        burn = sum(stint.rate for stint in self.stints if stint.start <= self.now and stint.end is None)
        return {
            "usageCents": self.units(self.month, self.now) // HOUR,
            "usageHours": sum(stint.within(self.month, self.now) for stint in self.stints) / HOUR,
            "burnPerHourCents": burn,
            "autoStopFloorCents": 0,
            "projectedRunwayHours": self.balance()["availableCents"] / burn if burn else None,
        }


def month_of(instant: int) -> int:
    """The first instant of a month."""
    moment = datetime.fromtimestamp(instant // SECOND, UTC)
    return int(moment.replace(day=1, hour=0, minute=0, second=0).timestamp()) * SECOND


class History:
    """Does each step over HTTP and in the books."""

    def __init__(self, organization: Organization, now: int, node: str) -> None:
        self.organization = organization
        self.books = Books(now)
        self.machines: list[Machine] = []
        self.node = node
        self.lost_at: int | None = None

    async def step(self, kind: str, argument: Any) -> None:
        """One thing that happens."""
        match kind:
            case "create":
                await self.create(*argument)
            case "pod":
                await self.create_pod(argument)
            case "node":
                await self.lose_or_return(argument)
            case "deposit":
                await deposit(self.organization, argument)
                self.books.credits.append((self.books.now + NOTIFIED * SECOND, argument))
            case "advance":
                await self.advance(argument)
            case "month":
                following = month_of(self.books.month + 32 * DAY)
                await self.advance(max(0, following + argument - self.books.now))
            case _:
                live = [machine for machine in self.machines if not machine.gone]
                if live:
                    await self.act(live[argument % len(live)], kind)

    async def create(self, size: str, rate: int) -> None:
        body = {"name": f"vm-{len(self.machines)}", "resourceSize": size}
        made = await self.organization.ok("POST", "/v1/orgs/{org}/vms/create", body)
        self.machines.append(Machine(made["id"], rate, self.start(rate)))

    async def create_pod(self, count: int) -> None:
        if self.lost_at is not None or sum(machine.pod for machine in self.machines) == PODS:
            return
        body = {"image": "app:1", "gpuModelId": "h100", "gpuCount": count}
        made = await self.organization.ok("POST", "/v1/pods", body)
        rate = made["pricePerHourCents"]
        self.machines.append(Machine(made["id"], rate, self.start(rate), pod=True))

    async def lose_or_return(self, wait: int) -> None:
        """The node stops reporting, or reports again, when nothing on it is on its way."""
        await self.advance(STARTED)
        reporting = self.lost_at is not None
        await self.organization.server.ok("PATCH", f"/nodes/{self.node}", {"reporting": reporting})
        self.lost_at = None if reporting else self.books.now
        for machine in self.machines if reporting else ():
            if machine.interrupted:
                machine.interrupted = False
                machine.stint = Stint(self.books.now, machine.rate)
                self.books.stints.append(machine.stint)
        await self.advance(wait)

    async def act(self, machine: Machine, action: str) -> None:
        books, state = self.books, machine.state(self.books.now)
        restarts = state == "stopped" and not (machine.pod and self.lost_at is not None)
        allowed = {"stop": state == "running", "restart": restarts, "terminate": True}[action]
        if not allowed:
            return
        await act(self.organization, machine.id, action)
        machine.gone, machine.interrupted = action == "terminate", False
        if action == "restart":
            machine.stint = self.start(machine.rate)
        elif state == "deploying":
            books.stints.remove(machine.stint)
        elif state == "running":
            machine.stint.end = books.now

    def start(self, rate: int) -> Stint:
        stint = Stint(self.books.now + STARTED, rate)
        self.books.stints.append(stint)
        return stint

    async def advance(self, microseconds: int) -> None:
        await self.organization.server.advance(microseconds / SECOND)
        self.books.now += microseconds
        if self.lost_at is None:
            return
        for machine in (machine for machine in self.machines if machine.pod and not machine.gone):
            if machine.stint.end is None and self.books.now >= self.lost_at + LOSS:
                machine.stint.end = self.lost_at + LOSS
                machine.interrupted = True
            if machine.interrupted and self.books.now >= self.lost_at + LOST_FOR_GOOD:
                machine.gone, machine.interrupted = True, False

    async def check(self) -> None:
        """Everything that is served is what the books say."""
        shown, used = await balance(self.organization), await usage(self.organization)
        transactions, lines = shown.pop("transactions"), used.pop("breakdown")
        assert shown == self.books.balance()
        assert used == self.books.usage()
        assert sum(item["amountCents"] for item in transactions) == shown["balanceCents"]
        assert -sum(item["amountCents"] for item in transactions if item["type"] == "usage") == self.books.settled_cents
        assert sum(line["cents"] for line in lines) == used["usageCents"]


LOSSES = [
    ("pod", 2),
    ("advance", 5 * SECOND),
    ("node", 200 * SECOND),
    ("advance", 10 * SECOND),
    ("node", 7 * SECOND),
    ("node", 100 * SECOND),
    ("node", 3 * SECOND),
    ("month", 601 * SECOND),
]


@example(steps=[*LOSSES, ("node", 0), ("stop", 0), ("advance", 181 * SECOND), ("terminate", 0)])
@example(steps=[*LOSSES, ("pod", 1), ("node", 0), ("advance", 8 * DAY), ("node", 0), ("month", 600 * SECOND)])
@settings(max_examples=20)
@given(steps=st.lists(STEPS, min_size=1, max_size=14))
def test_every_history_costs_what_a_straightforward_computation_says(server: Server, steps: list[Any]) -> None:
    asyncio.run(_play(server, steps))


async def _play(server: Server, steps: list[Any]) -> None:
    shown = datetime.fromisoformat(await server.advance(0))
    now = (shown - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    organization = await server.organization(balanceCents=FUNDS)
    history = History(organization, now, await own_node(organization, count=8 * PODS))
    for kind, argument in steps:
        await history.step(kind, argument)
        await history.check()
    for machine in history.machines:
        if not machine.gone:
            await act(history.organization, machine.id, "terminate")
