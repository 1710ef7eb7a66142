"""Calls to the receivers of webhooks: at least once, three retries, real HTTP (section 6).

A call stays on the due-queue until its outcome is written, so a process killed on the way makes it again. Up to
`IN_ALL` calls run at once, up to `PER_RECEIVER` of them to one subscription: a slow receiver holds up nobody else.
"""

import asyncio
from collections import Counter
from dataclasses import dataclass
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Self

from sqlalchemy import bindparam, delete, insert, select

from relay_localcloud import due, tables, webhook_faults
from relay_localcloud.due import DueItem
from relay_localcloud.instants import SECOND
from relay_localcloud.prepared import Prepared
from relay_localcloud.store import Store, Tx
from relay_localcloud.webhook_faults import Interference
from relay_localcloud.webhooks import ATTEMPT, signature

if TYPE_CHECKING:
    from relay_localcloud.receivers import Caller, Outcome

RETRY_AFTER = (10 * SECOND, 60 * SECOND, 300 * SECOND)
"""How long after the first, second and third failed attempt the next one follows (section 8)."""

IN_ALL = 64
PER_RECEIVER = 8

ATTEMPTS_KEPT = 20_000
_PRUNED_EVERY = 1_000

_delivery, _webhook = tables.webhook_deliveries.c, tables.webhooks.c
_FIND = Prepared(
    select(
        _delivery.event_type,
        _delivery.body,
        _webhook.id,
        _webhook.organization_id,
        _webhook.url,
        _webhook.signing_key,
        _webhook.enabled,
    )
    .join_from(tables.webhook_deliveries, tables.webhooks, _delivery.webhook_id == _webhook.id)
    .where(_delivery.id == bindparam("of_delivery"))
)
_RECORD_ATTEMPT = Prepared(insert(tables.webhook_attempts))


@dataclass(frozen=True)
class Call:
    """One attempt about to be made: what is sent where, and what a fault does to it."""

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
    def headers(self) -> dict[str, str]:
        """The headers of section 6."""
        return {
            "Content-Type": "application/json",
            "User-Agent": "relay-localcloud",
            "X-Relay-Signature": signature(self.key, self.body),
            "X-Relay-Event": self.event_type,
            "X-Relay-Delivery": self.item.subject,
        }


class Deliveries:
    """Makes the calls that the clock says are due."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._under_way: dict[int, asyncio.Task[None]] = {}
        self._lanes: Counter[str] = Counter()
        self._opening: asyncio.Task[Caller] | None = None

    async def __aenter__(self) -> Self:
        """Load the HTTP client in the background: it takes a fifth of the start, and nobody may ever subscribe."""
        self._opening = asyncio.create_task(_open_caller(), name="load the HTTP client")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Give up what is under way; it stays due."""
        await self.abandon()
        assert self._opening is not None
        await (await self._opening).close()

    async def abandon(self) -> None:
        """End the calls under way without an outcome; they stay due."""
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def begin(self, until: int, at_due_time: bool) -> None:
        """Start the calls due by `until`, as many as may run at once; their time is `until`, or when they fell due."""
        while (free := IN_ALL - len(self._under_way)) > 0:
            items = self._startable(until, free)
            if not items:
                return
            for item in items:
                assert item.lane is not None
                if self._lanes[item.lane] < PER_RECEIVER:
                    self._start(item, item.due_at if at_due_time else until)

    def next_due(self) -> int | None:
        """When the next call falls due that is not under way and may be started; None where there is none."""
        if len(self._under_way) >= IN_ALL:
            return None
        items = self._startable(None, 1)
        return items[0].due_at if items else None

    async def one_finished(self) -> None:
        """Return once a call that is under way has ended; at once where none is."""
        if self._under_way:
            await asyncio.wait(self._under_way.values(), return_when=asyncio.FIRST_COMPLETED)

    def _startable(self, until: int | None, limit: int) -> list[DueItem]:
        full = [lane for lane, count in self._lanes.items() if count >= PER_RECEIVER]
        with self._store.transaction(at=0) as tx:
            return due.outbound(tx.connection, until, self._under_way.keys(), full, limit)

    def _start(self, item: DueItem, at: int) -> None:
        assert item.lane is not None
        lane = item.lane
        self._lanes[lane] += 1
        task = asyncio.create_task(self._attempt(item, at), name=f"webhook attempt {item.subject}")
        self._under_way[item.id] = task

        def ended(task: asyncio.Task[None]) -> None:
            del self._under_way[item.id]
            self._lanes -= Counter((lane,))
            self._store.queue_changed()
            if not task.cancelled() and (error := task.exception()) is not None:
                asyncio.get_running_loop().call_exception_handler(
                    {"message": "a webhook attempt failed inside the local cloud", "exception": error, "task": task}
                )

        task.add_done_callback(ended)

    async def _attempt(self, item: DueItem, at: int) -> None:
        with self._store.transaction(at=at) as tx:
            call = _prepare(tx, item, at)
        if call is None:
            return
        caller, limit_seconds = await self._caller(), self._store.settings.webhook_timeout_seconds
        outcomes = [
            await caller.post(call.url, call.body, call.headers, limit_seconds) for _ in range(call.interference.copies)
        ]
        with self._store.transaction(at=at) as tx:
            _conclude(tx, call, outcomes)

    async def _caller(self) -> "Caller":
        assert self._opening is not None
        return await asyncio.shield(self._opening)


async def _open_caller() -> "Caller":
    module = await asyncio.to_thread(import_module, "relay_localcloud.receivers")
    caller: Caller = module.Caller(IN_ALL)
    return caller


def _prepare(tx: Tx, item: DueItem, at: int) -> Call | None:
    """What is to be sent now; None where the delivery, its subscription or a fault says that nothing is."""
    row = _FIND.run(tx.connection, of_delivery=item.subject).fetchone()
    if row is None:  # deletion ends retries
        due.remove(tx.connection, item.id)
        return None
    event_type, body, webhook_id, organization_id, url, key, enabled = row
    if not enabled and "replay" not in item.payload:  # so does pausing
        due.remove(tx.connection, item.id)
        return None
    interference = webhook_faults.interfere(tx, item, organization_id)
    if interference is None:
        return None
    return Call(item, at, webhook_id, organization_id, url, key, event_type, body.encode(), interference)


def _conclude(tx: Tx, call: Call, outcomes: "list[Outcome]") -> None:
    """Write the attempts down; a failed one is made again while the schedule has a next."""
    for outcome in outcomes:
        record_attempt(tx, call, outcome)
    still_queued = due.remove(tx.connection, call.item.id)
    webhook_faults.release_held(tx, call.webhook_id, call.item.subject)
    delivered = any(outcome.delivered for outcome in outcomes)
    if delivered or not still_queued or call.number > len(RETRY_AFTER):
        return
    payload = {**call.item.payload, "attempt": call.number + 1}
    tx.schedule(call.at + RETRY_AFTER[call.number - 1], ATTEMPT, call.item.subject, payload, lane=call.webhook_id)


def record_attempt(tx: Tx, call: Call, outcome: "Outcome") -> None:
    """Keep the record that deliveries lists show; the newest 20,000 stay."""
    written = _RECORD_ATTEMPT.run(
        tx.connection,
        sequence=None,
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
    )
    newest = written.lastrowid or 0
    if newest % _PRUNED_EVERY == 0:
        _prune(tx, newest - ATTEMPTS_KEPT)


def _prune(tx: Tx, last_dropped: int) -> None:
    attempt, delivery = tables.webhook_attempts.c, tables.webhook_deliveries.c
    dropped = select(attempt.delivery_id).where(attempt.sequence <= last_dropped)
    kept = select(attempt.delivery_id).where(attempt.sequence > last_dropped)
    queued = select(tables.due.c.subject).where(tables.due.c.kind == ATTEMPT)
    tx.connection.execute(
        delete(tables.webhook_deliveries).where(
            delivery.id.in_(dropped), delivery.id.not_in(kept), delivery.id.not_in(queued)
        )
    )
    tx.connection.execute(delete(tables.webhook_attempts).where(attempt.sequence <= last_dropped))
