"""Events for many subscriptions: whoever causes a thousand of them holds up nobody while they are recorded."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from hypothesis import example, given
from hypothesis import strategies as st
from sqlalchemy import delete

from relay_localcloud.app import HANDLERS
from relay_localcloud.control import exports
from relay_localcloud.http.turns import Turns
from relay_localcloud.identity import organizations
from relay_localcloud.kernel import due, tables
from relay_localcloud.kernel.instants import SECOND
from relay_localcloud.kernel.store import Store, Tx
from relay_localcloud.webhooks.deliveries import toggle
from relay_localcloud.webhooks.fan_out import FanOut, lane_of
from relay_localcloud.webhooks.webhooks import (
    ATTEMPT,
    DELIVERIES,
    EVENT_TYPES,
    FAN_OUT,
    FORGOTTEN_AT_ONCE,
    WEBHOOKS,
    emit,
    remove,
    toggles,
)

if TYPE_CHECKING:
    from relay_localcloud.kernel.due import DueItem

NOW = 1_800_000_000 * SECOND
SUBSCRIPTIONS, EVENTS = 30, 20


def _next(store: Store) -> DueItem | None:
    with store.transaction(at=NOW) as tx:
        return due.next_transition(tx.connection)


async def _recorded(store: Store, fan_out: FanOut) -> list[int]:
    """How many deliveries each event is recorded for."""
    recorded, before = [], 0
    fan_out.begin(NOW, at_due_time=True, horizon=NOW)
    while fan_out.tasks:
        await asyncio.gather(*fan_out.tasks)
        with store.transaction(at=NOW) as tx:
            recorded.append(len(DELIVERIES.all(tx)) - before)
        before += recorded[-1]
        fan_out.begin(NOW, at_due_time=True, horizon=NOW)
    return recorded


def _store(subscriptions: int) -> tuple[Store, str]:
    store = Store.ephemeral()
    store.call_queued[ATTEMPT] = lambda _: None
    with store.transaction(at=NOW) as tx:
        organization_id = organizations.found(tx, "o", 0, ()).organization_id
        for number in range(subscriptions):
            wanted = EVENT_TYPES[:1] if number % 2 else ()
            WEBHOOKS.insert(tx, id=f"wh_{number}", name=str(number), events=wanted, **_of(organization_id, NOW))
    return store, organization_id


def _of(organization_id: str, created_at: int) -> dict[str, Any]:
    """The other fields of a subscription."""
    named = {"organization_id": organization_id, "url": "http://127.0.0.1:9/", "created_at": created_at}
    return {**named, "secret_prefix": "whsec_", "signing_key": "0"}


async def test_an_event_for_several_subscriptions_is_recorded_in_a_turn_and_no_request_waits_for_it() -> None:
    store, organization_id = _store(SUBSCRIPTIONS)
    turns = Turns()
    fan_out = FanOut(store, turns, lambda *_: True)
    with store.transaction(at=NOW) as tx:
        for number in range(EVENTS):
            emit(tx, organization_id, EVENT_TYPES[number % 2], {"number": number})
        assert DELIVERIES.all(tx) == []
        assert due.next_transition(tx.connection) is None
    others = [asyncio.create_task(turns.of(lane_of(organization_id))) for _ in range(3)]
    await asyncio.sleep(0)
    recording = asyncio.create_task(_recorded(store, fan_out))
    await asyncio.gather(*others)
    with store.transaction(at=NOW) as tx:
        assert DELIVERIES.all(tx) == [], "others waited before it"
    assert await recording == [SUBSCRIPTIONS, SUBSCRIPTIONS // 2] * (EVENTS // 2)


async def test_an_event_is_for_who_took_events_when_it_happened_however_late_it_is_recorded() -> None:
    store, organization_id = _store(4)
    fan_out = FanOut(store, Turns(), lambda *_: True)

    def _toggle(tx: Tx, webhook_id: str, *, enabled: bool) -> None:
        webhook = WEBHOOKS.find(tx, id=webhook_id)
        assert webhook is not None
        toggle(tx, webhook, enabled=enabled)

    with store.transaction(at=NOW) as tx:
        _toggle(tx, "wh_1", enabled=False)
    with store.transaction(at=NOW + 1) as tx:
        emit(tx, organization_id, EVENT_TYPES[0], {})
    with store.transaction(at=NOW + 2) as tx:
        _toggle(tx, "wh_0", enabled=False)
        _toggle(tx, "wh_1", enabled=True)
        _toggle(tx, "wh_2", enabled=True)
        WEBHOOKS.insert(tx, id="wh_later", name="later", events=(), **_of(organization_id, tx.now))
    with store.transaction(at=NOW + 3) as tx:
        _toggle(tx, "wh_0", enabled=False)
    fan_out.begin(NOW + 3, at_due_time=True, horizon=NOW + 3)
    await asyncio.gather(*fan_out.tasks)
    with store.transaction(at=NOW + 3) as tx:
        assert {each.webhook_id for each in DELIVERIES.all(tx)} == {"wh_0", "wh_2", "wh_3"}


STEPS = st.lists(st.sampled_from(["emit", "wh_0", "wh_1", "new", "record", "later"]), max_size=14)


@given(STEPS)
@example(["wh_0", "emit", "wh_0", "record"])
@example(["emit", "wh_0", "wh_0", "record"])
@example(["wh_0", "wh_0", "emit", "wh_0", "record"])
@example(["emit", "new", "record"])
def test_the_order_of_events_and_toggles_at_one_instant_says_who_takes_an_event(steps: list[str]) -> None:
    asyncio.run(_play(steps))


async def _play(steps: list[str]) -> None:
    """Emit events, toggle and record, with a clock that mostly stands still; two subscriptions are never paused."""
    store, organization_id = _store(0)
    fan_out, now = FanOut(store, Turns(), lambda *_: True), NOW
    enabled: dict[str, bool] = {}
    expected: set[tuple[int, str]] = set()

    def add(tx: Tx, name: str) -> None:
        after = toggles(tx, organization_id)
        WEBHOOKS.insert(tx, id=name, name=name, events=(), **_of(organization_id, tx.now), toggled_after=after)
        enabled[name] = True

    with store.transaction(at=now) as tx:
        for name in ("wh_0", "wh_1", "wh_2", "wh_3"):
            add(tx, name)
    for number, step in enumerate([*steps, "record"]):
        with store.transaction(at=now) as tx:
            match step:
                case "emit":
                    emit(tx, organization_id, EVENT_TYPES[0], {"number": number})
                    expected |= {(number, name) for name, takes in enabled.items() if takes}
                case "new":
                    add(tx, f"new_{number}")
                case "wh_0" | "wh_1":
                    webhook = WEBHOOKS.find(tx, id=step)
                    assert webhook is not None
                    enabled[step] = not enabled[step]
                    toggle(tx, webhook, enabled=enabled[step])
        if step == "later":
            now += 1
        if step == "record":
            fan_out.begin(now, at_due_time=True, horizon=now)
            while fan_out.tasks:
                await asyncio.gather(*fan_out.tasks)
                fan_out.begin(now, at_due_time=True, horizon=now)
    with store.transaction(at=now) as tx:
        taken = {(json.loads(each.body)["data"]["number"], each.webhook_id) for each in DELIVERIES.all(tx)}
    store.close()
    assert taken == expected


async def test_an_imported_subscription_takes_what_happens_from_then_on() -> None:
    store, organization_id = _store(2)
    FanOut(store, Turns(), lambda *_: True)
    with store.transaction(at=NOW) as tx:
        for number in range(EVENTS):
            emit(tx, organization_id, EVENT_TYPES[0], {"number": number})
        tx.connection.execute(delete(tables.due))
        webhook = WEBHOOKS.find(tx, id="wh_0")
        assert webhook is not None
        toggle(tx, toggle(tx, webhook, enabled=False), enabled=True)
        state = exports.exported(tx)
    other = Store.ephemeral()
    other.call_queued[ATTEMPT] = lambda _: None
    fan_out = FanOut(other, Turns(), lambda *_: True)
    with other.transaction(at=NOW) as tx:
        exports.replace(tx, state)
        emit(tx, organization_id, EVENT_TYPES[0], {})
    assert await _recorded(other, fan_out) == [2]


async def test_an_event_for_which_there_is_no_room_any_more_is_recorded_for_nobody() -> None:
    store, organization_id = _store(SUBSCRIPTIONS)
    room = iter([True, False])
    fan_out = FanOut(store, Turns(), lambda *_: next(room))
    with store.transaction(at=NOW) as tx:
        for _ in range(2):
            emit(tx, organization_id, EVENT_TYPES[0], {})
    assert await _recorded(store, fan_out) == [SUBSCRIPTIONS, 0]
    with store.transaction(at=NOW) as tx:
        assert due.queued_calls(tx.connection, FAN_OUT) == []


def test_what_is_left_of_a_subscription_goes_a_part_at_a_time() -> None:
    store, organization_id = _store(1)
    count = 2 * FORGOTTEN_AT_ONCE + 7
    with store.transaction(at=NOW) as tx:
        for number in range(count):
            emit(tx, organization_id, EVENT_TYPES[0], {"number": number})
    with store.transaction(at=NOW) as tx:
        remove(tx, "wh_0")
    left = [count]
    times = []
    while (item := _next(store)) is not None:
        with store.transaction(at=item.due_at) as tx:
            times.append(item.due_at - NOW)
            due.remove(tx.connection, item.id)
            HANDLERS[item.kind](tx, item)
            left.append(len(DELIVERIES.all(tx)))
            calls = due.queued_calls(tx.connection, ATTEMPT)
    assert max(before - after for before, after in pairwise(left)) == FORGOTTEN_AT_ONCE
    assert (left[-1], calls) == (0, [])
    assert times == [number * SECOND for number in range(len(times))]


def test_an_event_for_one_subscription_is_recorded_at_once() -> None:
    store, organization_id = _store(1)
    with store.transaction(at=NOW) as tx:
        emit(tx, organization_id, EVENT_TYPES[0], {})
        assert len(DELIVERIES.all(tx)) == 1
