"""Whom a webhook wakes: who records the id, else who searches in that account."""

import asyncio

import pytest
from pydantic import JsonValue

from relay_operator.api import meta
from relay_operator.api.meta import ObjectKey
from relay_operator.engine.cache import Cache
from relay_operator.engine.queue import Priority, Queue
from relay_operator.engine.unclaimed_ids import UnclaimedIds
from relay_operator.webhooks.event_router import EventRouter
from relay_wire.events import Event

ACCOUNT, ANOTHER = (ObjectKey("CloudAccount", namespace, "default") for namespace in ("team-a", "team-b"))
INTENT = '{"token":"t1","name":"n","attempt":1,"spec_hash":"","started_at":"2026-03-01T12:00:00Z"}'


class Router:
    """Two namespaces with an account each; what was woken, and which ids nobody owns."""

    def __init__(self) -> None:
        self.now = 0.0
        self.cache, self.queue = Cache(), Queue[ObjectKey](lambda: self.now)
        self.unclaimed = {ACCOUNT: UnclaimedIds(), ANOTHER: UnclaimedIds()}
        self.router = EventRouter(self.cache, self.queue, self.unclaimed.__getitem__)
        for account in self.unclaimed:
            self.put(account, {})

    def put(self, key: ObjectKey, status: JsonValue, *, intent: bool = False) -> ObjectKey:
        metadata: JsonValue = {"uid": "u1", "annotations": {meta.CREATE_INTENT: INTENT} if intent else {}}
        self.cache.put(key, {"metadata": metadata, "spec": {}, "status": status})
        return key

    def tell(self, pod_id: str) -> set[ObjectKey]:
        self.router.on_event(
            ACCOUNT, Event.model_validate({"id": "e1", "type": "vm.running", "data": {"vmId": pod_id}})
        )
        return set(self.queue._pending)

    async def work(self) -> set[ObjectKey]:
        """What was woken, and waits no longer."""
        woken = set(self.queue._pending)
        for _ in woken:
            self.queue.done((await self.queue.take()).key)
        return woken


def pod(name: str, namespace: str = "team-a") -> ObjectKey:
    return ObjectKey("GpuPod", namespace, name)


@pytest.fixture
def router() -> Router:
    return Router()


async def test_an_id_that_only_another_cloud_knows_wakes_who_searches(router: Router) -> None:
    for account in (ACCOUNT, ANOTHER):
        spec: JsonValue = {"apiKeySecretRef": {}, "baseUrl": f"https://{account.namespace}.example"}
        router.cache.put(account, {"metadata": {"uid": "u1", "resourceVersion": "2"}, "spec": spec})
    router.put(pod("records", "team-b"), {"id": "pod-1"})
    searches = router.put(pod("searches"), {}, intent=True)
    assert router.tell("pod-1") == {searches}


def test_a_known_id_wakes_who_records_it_and_nobody_else(router: Router) -> None:
    records = router.put(pod("records"), {"id": "pod-1"}, intent=True)
    router.put(pod("searches"), {}, intent=True)
    assert router.tell("pod-1") == {records}
    assert list(router.unclaimed[ACCOUNT].nameless()) == []


async def test_an_unknown_id_wakes_who_searches_in_that_account_and_nobody_who_waits_for_room(router: Router) -> None:
    searches = router.put(pod("searches"), {"createToken": "t0"}, intent=True)
    router.put(pod("waits-for-room"), {"createToken": "t1"}, intent=True)
    router.put(pod("searches-elsewhere", "team-b"), {}, intent=True)
    router.put(pod("not-yet-tried"), {})
    assert router.tell("pod-9") == {searches}
    assert list(router.unclaimed[ACCOUNT].nameless()) == ["pod-9"]
    assert list(router.unclaimed[ANOTHER].nameless()) == []


async def test_what_is_being_created_is_not_woken_since_its_answer_tells(router: Router) -> None:
    creating = router.put(pod("creating"), {}, intent=True)
    router.queue.add(creating, Priority.CHANGE)
    await router.queue.take()
    assert router.tell("pod-9") == set()


def test_who_signs_for_one_account_wakes_nobody_of_another(router: Router) -> None:
    router.put(pod("elsewhere", "team-b"), {"id": "pod-1"})
    assert router.tell("pod-1") == set()
    assert list(router.unclaimed[ACCOUNT].nameless()) == []


async def test_a_storm_of_events_wakes_an_object_only_so_often_and_the_last_is_not_lost(router: Router) -> None:
    records = router.put(pod("records"), {"id": "pod-1"})
    wakes, last = 0, 0.0
    for number in range(10_000):
        router.now = number / 100
        router.tell("pod-1")
        while records in router.queue._pending:
            taken = await router.queue.take()
            router.queue.done(taken.key)
            wakes, last = wakes + 1, router.now
        router.queue._promote()
    assert 100 <= wakes <= 220
    router.now += 10
    router.queue._promote()
    assert records in router.queue._pending or last >= 99.99


@pytest.mark.virtual_time
async def test_a_storm_of_unknown_ids_wakes_who_searches_once_a_second_and_the_last_is_not_lost(router: Router) -> None:
    searching = {router.put(pod(f"searches-{number}"), {}, intent=True) for number in range(3)}
    assert router.tell("pod-0") == searching
    await router.work()
    assert router.tell("pod-1") == set()
    searching.add(router.put(pod("searches-since"), {}, intent=True))
    assert router.tell("pod-2") == set()
    assert list(router.unclaimed[ACCOUNT].nameless()) == ["pod-2", "pod-1", "pod-0"]
    await asyncio.sleep(1)
    assert await router.work() == searching
    assert router.tell("pod-3") == set()
    await asyncio.sleep(1)
    assert await router.work() == searching
    await asyncio.sleep(1)
    assert await router.work() == set()
    assert router.tell("pod-4") == searching


@pytest.mark.virtual_time
async def test_a_storm_of_unknown_ids_delays_no_event_about_a_known_one(router: Router) -> None:
    router.put(pod("searches"), {}, intent=True)
    records = router.put(pod("records"), {"id": "pod-1"}, intent=True)
    router.tell("pod-9")
    await router.work()
    assert router.tell("pod-9") == set()
    assert router.tell("pod-1") == {records}


@pytest.mark.virtual_time
async def test_an_account_of_which_no_more_comes_is_not_remembered(router: Router) -> None:
    router.put(pod("searches"), {}, intent=True)
    router.tell("pod-9")
    await asyncio.sleep(1)
    assert router.router._resting == {}


def test_what_is_remembered_of_storms_has_a_bound(router: Router) -> None:
    for number in range(1_000):
        router.now = float(number)
        router.put(pod(f"pod-{number}"), {"id": f"id-{number}"})
        router.tell(f"id-{number}")
    assert len(router.router._spent) <= 20
