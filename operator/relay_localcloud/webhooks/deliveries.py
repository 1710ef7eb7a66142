"""Calls to the receivers of webhooks: at least once, with three retries, over real HTTP (section 6).

A call stays on the due-queue until its outcome is written, so a killed process repeats it. Up to `IN_ALL` calls run at
once, up to `PER_RECEIVER` of them to one subscription, so a slow receiver does not delay others. Those about the same
workload follow one another, so that the last one a receiver gets tells how it is now. A receiver that repeatedly does
not answer is called less often (`circuits.py`).
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from pydantic import JsonValue
from sqlalchemy import BindParameter, bindparam, delete, select, text

from relay_localcloud.clock.outbound import Outbound
from relay_localcloud.egress.reach import Reach
from relay_localcloud.faults.faults import WEBHOOK
from relay_localcloud.faults.layer import FaultRegistry
from relay_localcloud.http.turns import Turns
from relay_localcloud.kernel import counts, due, tables
from relay_localcloud.kernel.counts import Counted, Totals
from relay_localcloud.kernel.due import DueItem, QueuedCall
from relay_localcloud.kernel.instants import SECOND, seconds, timestamp
from relay_localcloud.kernel.prepared import Prepared
from relay_localcloud.kernel.shares import even_share
from relay_localcloud.kernel.store import Store, Tx
from relay_localcloud.webhooks import faults as webhook_faults
from relay_localcloud.webhooks.circuits import Circuits
from relay_localcloud.webhooks.fan_out import FanOut, lane_of
from relay_localcloud.webhooks.faults import Interference
from relay_localcloud.webhooks.outcomes import Outcome
from relay_localcloud.webhooks.webhooks import (
    ATTEMPT,
    ATTEMPTS,
    DELIVERIES,
    WEBHOOKS,
    Subscription,
    emit,
    signature,
    toggles,
)

if TYPE_CHECKING:
    from relay_localcloud.webhooks.receivers import Caller

RETRY_AFTER = (10 * SECOND, 60 * SECOND, 300 * SECOND)
"""The delays after the first, second and third failed attempt, in microseconds (section 8)."""

OVERTAKING = RETRY_AFTER[0]
"""The shortest delay of a retry: a call's outcome affects nothing that falls due sooner after the call."""

PAUSED = "paused"
"""The key in the payload of a call that fell due while its subscription was paused."""

IN_ALL = 256
PER_RECEIVER = 8
_OF_WORKLOADS: Final = ("clusterId", "deploymentId", "vmId")

ATTEMPTS_KEPT: Final = 20_000
LARGEST: Final = 32 * 1024 * 1024
"""Bytes on disk of the attempts kept, each including its event."""
PAUSED_KEPT: Final = 1_000
"""How many deliveries of a paused subscription wait until it is resumed, at most."""
_FIXED_SIZE: Final = 300
_PRUNED_EVERY: Final = 100
DROPPED_AT_ONCE: Final = 1_000
"""How many attempts of an organization one transaction drops at most, since a transaction holds up every request."""

_ATTEMPTS: Final = ATTEMPTS.table.name
COUNTED: Final[Totals] = {
    "attempts": (Counted(_ATTEMPTS),),
    "attemptBytes": (Counted(_ATTEMPTS, amount="{row}.size"),),
}
"""The counters of each organization's attempts: their number, and their size in bytes."""

_item, _delivery, _webhook = tables.due.c, DELIVERIES.table.c, WEBHOOKS.table.c
_FIND = Prepared(
    select(
        _item.due_at,
        _item.subject,
        _item.lane,
        _item.payload,
        _delivery.event_type,
        _delivery.body,
        _webhook.id,
        _webhook.organization_id,
        _webhook.url,
        _webhook.signing_key,
        _webhook.enabled,
    )
    .join_from(tables.due, DELIVERIES.table, _item.subject == _delivery.id)
    .join(WEBHOOKS.table, _delivery.webhook_id == _webhook.id)
    .where(_item.id == bindparam("of_item"))
)

_OVERDUE = Prepared(
    select(_item.id).where(_item.lane == bindparam("of_lane"), _item.due_at <= bindparam("now")).limit(PAUSED_KEPT + 1)
)

_of_delivery: BindParameter[str] = bindparam("delivery")
_DROP_EVENT = Prepared(
    delete(DELIVERIES.table).where(
        _delivery.id == _of_delivery,
        ~_delivery.held,
        ~select(ATTEMPTS.table.c.sequence).where(ATTEMPTS.table.c.delivery_id == _of_delivery).exists(),
        ~select(_item.id).where(_item.kind == text(f"'{ATTEMPT}'"), _item.subject == _of_delivery).exists(),
    )
)


@dataclass(frozen=True)
class Call:
    """One attempt that is about to be made: the request, and what a fault does to it."""

    item: DueItem
    at: int
    webhook_id: str
    organization_id: str
    url: str
    key: str
    event_type: str
    body: bytes
    interference: Interference

    @property
    def number(self) -> int:
        """1 for the first attempt; a replayed delivery starts at 1 again."""
        number = self.item.payload["attempt"]
        assert isinstance(number, int)
        return number

    @property
    def is_replay(self) -> bool:
        """Whether the call replays a delivery on request."""
        return "replay" in self.item.payload

    @property
    def is_last(self) -> bool:
        """Whether no other attempt follows."""
        return self.number > len(RETRY_AFTER)

    @property
    def headers(self) -> dict[str, str]:
        """The headers of section 6."""
        return {
            "Content-Type": "application/json",
            "User-Agent": "relay-localcloud",
            "X-Relay-Signature": signature(self.key, self.body),
            "X-Relay-Event": self.event_type,
            "X-Relay-Delivery": self.item.subject,
        }


class Deliveries(Outbound):
    """Makes the calls that the clock says are due."""

    precedes = OVERTAKING  # a call schedules nothing earlier than that

    def __init__(self, store: Store, faults: FaultRegistry, reach: Reach, turns: Turns) -> None:
        super().__init__(store, ATTEMPT, IN_ALL, PER_RECEIVER)
        store.emitted = self._emit
        self.fan_out = FanOut(store, turns, self._has_room)
        self._turns = turns
        self._faults = faults
        self._reach = reach
        self._circuits = Circuits()
        self._opening: asyncio.Task[Caller] | None = None
        self._latest: dict[tuple[str, str], asyncio.Event] = {}
        """By subscription and workload: set when the last of the calls begun so far has ended."""

    async def __aenter__(self) -> Self:
        """Import the HTTP client in the background if anybody subscribed: that takes a fifth of the start."""
        with self._store.transaction(at=0) as tx:
            if WEBHOOKS.first(tx, 1):
                self.expect()
        return self

    def expect(self) -> None:
        """Import the HTTP client in the background, so that the first call need not wait for that."""
        if self._opening is None:
            self._opening = asyncio.create_task(_open_caller(self._reach), name="load the HTTP client")

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Cancel calls under way, which stay due, and close the HTTP client."""
        await self.abandon()
        await self.fan_out.abandon()
        if self._opening is not None:
            await (await self._opening).close()

    def _emit(self, tx: Tx, organization_id: str, event_type: str, data: Mapping[str, JsonValue]) -> None:
        if self._has_room(tx, organization_id):
            emit(tx, organization_id, event_type, data)

    def _has_room(self, tx: Tx, organization_id: str) -> bool:
        waiting = self.pending(organization_id) + self.fan_out.pending(organization_id)
        return waiting < tx.settings.pending_deliveries

    def _owner(self, tx: Tx, lane: str) -> str | None:
        webhook = WEBHOOKS.find(tx, id=lane)
        return None if webhook is None else webhook.organization_id

    def start_over(self) -> None:
        """Cancel calls under way, forget how receivers answered so far, and read the due items of the new state."""
        self._circuits.forget()
        self.fan_out.start_over()
        super().start_over()

    async def _attempt(self, queued: QueuedCall, at: int, horizon: int) -> None:
        with self._store.transaction(at=at) as tx:
            workload_id = _about(tx, queued.item_id)
        async with self._after_earlier(queued.lane, workload_id):
            await self._call(queued, at)

    @asynccontextmanager
    async def _after_earlier(self, lane: str, workload_id: str) -> AsyncIterator[None]:
        """Wait until the calls have ended that began before, to the same receiver about the same workload."""
        about, ended = (lane, workload_id), asyncio.Event()
        earlier, self._latest[about] = self._latest.get(about), ended
        try:
            if earlier is not None:
                await earlier.wait()
            yield
        finally:
            ended.set()
            if self._latest.get(about) is ended:
                del self._latest[about]

    async def _call(self, queued: QueuedCall, at: int) -> None:
        lane = lane_of(self._owner_of(queued.lane))
        await self._turns.of(lane)
        with self._store.transaction(at=at) as tx:
            call = _prepare(tx, queued.item_id, at, faulty=self._faults.has(WEBHOOK))
        if call is None:
            return
        limit_seconds = self._store.settings.webhook_timeout_seconds
        rests_until = self._rest(call, seconds(limit_seconds))
        outcomes = await self._posted(call, limit_seconds) if rests_until is None else [_not_called(rests_until)]
        await self._turns.of(lane)
        with self._store.transaction(at=at) as tx:
            _conclude(tx, call, outcomes)

    def _rest(self, call: Call, limit: int) -> int | None:
        """Until when the receiver rests; None if it is called."""
        last_due = call.item.due_at if call.is_last else None
        return None if call.is_replay else self._circuits.admit(call.webhook_id, call.at, limit, last_due)

    async def _posted(self, call: Call, limit_seconds: float) -> list[Outcome]:
        caller = await self._caller()
        outcomes = [
            await caller.post(call.url, call.body, call.headers, limit_seconds) for _ in range(call.interference.copies)
        ]
        self._circuits.ended(call.webhook_id, call.at, seconds(limit_seconds), hung=outcomes[-1].hung)
        return outcomes

    async def _caller(self) -> "Caller":
        self.expect()
        assert self._opening is not None
        return await asyncio.shield(self._opening)


def _not_called(rests_until: int) -> Outcome:
    error = f"not called: it left too many calls in a row unanswered, and rests until {timestamp(rests_until)}"
    return Outcome(None, error, 0)


async def _open_caller(reach: Reach) -> "Caller":
    module = await asyncio.to_thread(import_module, "relay_localcloud.webhooks.receivers")
    caller: Caller = module.Caller(IN_ALL, reach)
    return caller


def _about(tx: Tx, item_id: int) -> str:
    """The id of the workload that an event tells of: of a replica's event, its cluster or deployment."""
    row = _FIND.run(tx.connection, of_item=item_id).fetchone()
    data = {} if row is None else json.loads(row[5])["data"]
    return next((str(data[name]) for name in _OF_WORKLOADS if name in data), "")


def _prepare(tx: Tx, item_id: int, at: int, *, faulty: bool) -> Call | None:
    """The call to make now; None if a cancellation, the subscription or a fault prevents it."""
    row = _FIND.run(tx.connection, of_item=item_id).fetchone()
    if row is None:  # cancelled or replaced, or the subscription was deleted
        return None
    item = DueItem(item_id, row[0], ATTEMPT, row[1], row[2], json.loads(row[3]))
    event_type, body, webhook_id, organization_id, url, key, enabled = row[4:]
    if not enabled and "replay" not in item.payload:  # it stays due until `_resume`
        if _overdue(tx, webhook_id) > PAUSED_KEPT:
            due.remove(tx.connection, item_id)
            if item.payload["attempt"] == 1:  # no attempt refers to it
                DELIVERIES.remove(tx, id=item.subject)
            return None
        due.schedule(tx.connection, item.due_at, ATTEMPT, item.subject, {**item.payload, PAUSED: True}, item.lane)
        return None
    interference = webhook_faults.interfere(tx, item, organization_id) if faulty else webhook_faults.UNDISTURBED
    if interference is None:
        return None
    return Call(item, at, webhook_id, organization_id, url, key, event_type, body.encode(), interference)


def _overdue(tx: Tx, webhook_id: str) -> int:
    """The number of calls to a subscription that fell due, this one included; counted up to PAUSED_KEPT + 1."""
    return len(_OVERDUE.run(tx.connection, of_lane=webhook_id, now=tx.now).fetchall())


def toggle(tx: Tx, webhook: Subscription, *, enabled: bool) -> Subscription:
    """Pause or resume a subscription."""
    if enabled is webhook.enabled:
        return webhook
    if enabled:
        _resume(tx, webhook.id)
    toggled_after = toggles(tx, webhook.organization_id, webhook.toggled_after)
    return WEBHOOKS.changed(tx, webhook, enabled=enabled, toggled_at=tx.now, toggled_after=toggled_after)


def _resume(tx: Tx, webhook_id: str) -> None:
    """Schedule the calls that fell due while the subscription was paused."""
    fell_due = (_item.lane == webhook_id, _item.payload.contains(f'"{PAUSED}"'))
    waiting = tx.connection.execute(select(_item.subject, _item.payload).where(*fell_due)).all()
    for subject, kept in waiting:
        payload = json.loads(kept)
        if payload.pop(PAUSED, False):
            tx.schedule(tx.now, ATTEMPT, subject, payload, lane=webhook_id)


def _conclude(tx: Tx, call: Call, outcomes: list[Outcome]) -> None:
    """Record the attempts, and schedule the next one if all failed and retries are left."""
    for outcome in outcomes:
        record_attempt(tx, call, outcome)
    still_queued = due.remove(tx.connection, call.item.id)
    webhook_faults.release_held(tx, call.webhook_id, call.item.subject)
    delivered = any(outcome.delivered for outcome in outcomes)
    if delivered or not still_queued or call.is_last:
        return
    payload = {**call.item.payload, "attempt": call.number + 1}
    tx.schedule(call.at + RETRY_AFTER[call.number - 1], ATTEMPT, call.item.subject, payload, lane=call.webhook_id)


def record_attempt(tx: Tx, call: Call, outcome: Outcome) -> None:
    """Record an attempt for the lists of deliveries, which keep the newest 20,000, shared evenly by organizations."""
    written = ATTEMPTS.insert(
        tx,
        id=tx.new_id("wha"),
        delivery_id=call.item.subject,
        webhook_id=call.webhook_id,
        organization_id=call.organization_id,
        event_type=call.event_type,
        attempt=call.number,
        status_code=outcome.status,
        error=outcome.error,
        fault_id=call.interference.fault_id,
        requested_at=call.at,
        duration_ms=outcome.duration_ms,
        size=_FIXED_SIZE + len(outcome.error or "") + len(call.body),
    )
    if written.sequence % _PRUNED_EVERY == 0:
        _prune(tx)


def _prune(tx: Tx) -> None:
    """Drop attempts beyond their organizations' shares, up to DROPPED_AT_ONCE of each organization."""
    rows, sizes = (counts.by_organization(tx.connection, name) for name in COUNTED)
    most, largest = even_share(rows.values(), ATTEMPTS_KEPT), even_share(sizes.values(), LARGEST)
    for organization_id in rows:
        _drop_oldest(tx, organization_id, rows[organization_id] - most, sizes[organization_id] - largest)


def _drop_oldest(tx: Tx, organization_id: str, rows: int, size: int) -> None:
    """Drop at least `rows` attempts and `size` bytes, and the events that nothing refers to any more."""
    if rows <= 0 and size <= 0:
        return
    for attempt in ATTEMPTS.first(tx, DROPPED_AT_ONCE, organization_id=organization_id):
        if rows <= 0 and size <= 0:
            return
        rows, size = rows - 1, size - attempt.size
        ATTEMPTS.remove(tx, sequence=attempt.sequence)
        _DROP_EVENT.run(tx.connection, delivery=attempt.delivery_id)
