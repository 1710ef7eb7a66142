"""Events for many subscriptions: whoever causes a thousand of them holds up nobody while they are recorded."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from relay_localcloud.app import HANDLERS
from relay_localcloud.identity import organizations
from relay_localcloud.kernel import due
from relay_localcloud.kernel.instants import SECOND
from relay_localcloud.kernel.store import Store
from relay_localcloud.webhooks.webhooks import (
    ATTEMPT,
    DELIVERIES,
    EVENT_TYPES,
    FAN_OUT,
    FORGOTTEN_AT_ONCE,
    WEBHOOKS,
    emit,
    remove,
)

if TYPE_CHECKING:
    from relay_localcloud.kernel.due import DueItem

NOW = 1_800_000_000 * SECOND
SUBSCRIPTIONS, EVENTS = 30, 20


def _next(store: Store) -> DueItem | None:
    with store.transaction(at=NOW) as tx:
        return due.next_transition(tx.connection)


def _recorded(store: Store) -> list[int]:
    """How many deliveries each transition of events records."""
    recorded = []
    while (item := _next(store)) is not None and item.due_at <= NOW:
        with store.transaction(at=NOW) as tx:
            due.remove(tx.connection, item.id)
            before = len(DELIVERIES.all(tx))
            HANDLERS[item.kind](tx, item)
            recorded += [len(DELIVERIES.all(tx)) - before] if item.kind == FAN_OUT else []
    return recorded


def _store(subscriptions: int) -> tuple[Store, str]:
    store = Store.ephemeral()
    store.call_queued[ATTEMPT] = lambda _: None
    with store.transaction(at=NOW) as tx:
        organization_id = organizations.found(tx, "o", 100, ()).organization_id
        named = {"organization_id": organization_id, "url": "http://127.0.0.1:9/", "created_at": NOW}
        key = {"secret_prefix": "whsec_", "signing_key": "0"}
        for number in range(subscriptions):
            wanted = EVENT_TYPES[:1] if number % 2 else ()
            WEBHOOKS.insert(tx, id=f"wh_{number}", name=str(number), events=wanted, **named, **key)
    return store, organization_id


def test_an_event_for_several_subscriptions_is_recorded_in_a_transition_of_its_own() -> None:
    store, organization_id = _store(SUBSCRIPTIONS)
    with store.transaction(at=NOW) as tx:
        for number in range(EVENTS):
            emit(tx, organization_id, EVENT_TYPES[number % 2], {"number": number})
        assert DELIVERIES.all(tx) == []
    assert _recorded(store) == [SUBSCRIPTIONS, SUBSCRIPTIONS // 2] * (EVENTS // 2)


def test_what_is_left_of_a_subscription_goes_a_part_at_a_time() -> None:
    store, organization_id = _store(1)
    count = 2 * FORGOTTEN_AT_ONCE + 7
    with store.transaction(at=NOW) as tx:
        for number in range(count):
            emit(tx, organization_id, EVENT_TYPES[0], {"number": number})
    with store.transaction(at=NOW) as tx:
        remove(tx, "wh_0")
    left = [count]
    while (item := _next(store)) is not None and item.due_at <= NOW:
        with store.transaction(at=NOW) as tx:
            due.remove(tx.connection, item.id)
            HANDLERS[item.kind](tx, item)
            left.append(len(DELIVERIES.all(tx)))
            calls = due.queued_calls(tx.connection, ATTEMPT)
    assert max(before - after for before, after in pairwise(left)) == FORGOTTEN_AT_ONCE
    assert (left[-1], calls) == (0, [])


def test_an_event_for_one_subscription_is_recorded_at_once() -> None:
    store, organization_id = _store(1)
    with store.transaction(at=NOW) as tx:
        emit(tx, organization_id, EVENT_TYPES[0], {})
        assert len(DELIVERIES.all(tx)) == 1
