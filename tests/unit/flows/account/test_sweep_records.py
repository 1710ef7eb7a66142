"""What is recorded as left in the cloud stays told until two looks in a row do not find it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from relay_operator.api.cloudaccount import Orphans
from relay_operator.api.meta import CREATE_INTENT, CreateIntent, ObjectKey
from relay_operator.engine.endpoints import Endpoints, called
from relay_operator.engine.intent import cloud_name
from relay_operator.engine.leftover import Fate, Leftover
from relay_operator.engine.leftovers import Leftovers
from relay_operator.engine.queue import Priority
from relay_operator.flows.account import sweep as sweep_module
from relay_operator.kinds.gpupod import GpuPodStatus
from tests.support.turns import others
from tests.unit.flows.account.swept import ACCOUNT, ELSEWHERE, ORPHAN, Listed, Swept, asking
from tests.unit.flows.managed.cloudpods import lost
from tests.unit.flows.managed.world import BEGINNING

if TYPE_CHECKING:
    from pydantic import JsonValue

    from relay_client import Cloud
    from relay_operator.flows.managed.resource import Look
    from relay_wire.vms import VmRecord
    from tests.unit.engine.apiserver import Json


async def test_what_is_gone_is_told_until_two_looks_in_a_row_say_so(swept: Swept) -> None:
    made = swept.world.pods.add(ORPHAN)
    await swept()
    swept.world.pods.become(made.id, "terminated")
    swept.world.pods.failures.clear()
    await swept()
    assert swept.told() == [(Fate.ORPHAN, made.id)]
    await swept()
    assert swept.told() == []


async def test_what_is_part_of_something_is_asked_for_there_until_it_is_gone(swept: Swept) -> None:
    asked = list[str]()

    class Parts(Listed):
        async def observe(self, cloud: Cloud, cloud_id: str, last: GpuPodStatus, look: Look) -> VmRecord:
            asked.append(cloud_id)
            return await super().observe(cloud, cloud_id.removeprefix("vm-1/"), last, look)

    swept.knows("GpuPod", Parts)
    made, leftovers = swept.world.pods.add("nightly"), swept.world.informer.vanished.leftovers
    kept = Leftover(
        fate=Fate.KEPT,
        kind="GpuPod",
        account=ACCOUNT,
        organization="org-1",
        id=made.id,
        part_of="vm-1",
        since=BEGINNING,
    )
    leftovers.note(kept)
    await swept()
    assert (swept.told(), asked) == ([(Fate.KEPT, made.id)], [f"vm-1/{made.id}"])
    swept.world.pods.hidden.add(made.id)
    await swept()
    await swept()
    assert swept.told() == []


async def test_what_cannot_be_looked_at_is_not_gone(swept: Swept) -> None:
    leftovers = swept.world.informer.vanished.leftovers
    of_another = Leftover(
        fate=Fate.ORPHAN, kind="GpuPod", account=ACCOUNT, organization="org-2", id="pod-7", since=BEGINNING
    )
    made = swept.world.pods.add(ORPHAN)
    await swept()
    leftovers.note(of_another)
    swept.world.pods.random_failure = lambda _call: lost(acted=False)
    for _ in range(3):
        await swept()
    assert sorted(swept.told()) == [(Fate.ORPHAN, made.id), (Fate.ORPHAN, "pod-7")]


@pytest.mark.parametrize("fate", [Fate.ORPHAN, Fate.KEPT])
@pytest.mark.parametrize("now", ["gone", "of another organization"])
async def test_what_an_account_left_is_looked_after_by_another_of_its_organization(
    swept: Swept, now: str, fate: Fate
) -> None:
    made = swept.world.pods.add(ORPHAN)
    gone, leftovers = ObjectKey("CloudAccount", "team-b", "default"), swept.world.informer.vanished.leftovers
    if now == "of another organization":
        swept.has(gone)
        swept.organizations[gone] = "org-2"
    for organization, cloud_id in (("org-1", made.id), ("org-2", "pod-7")):
        leftovers.note(
            Leftover(fate=fate, kind="GpuPod", account=gone, organization=organization, id=cloud_id, since=BEGINNING)
        )
    await leftovers.save()
    await swept()
    assert swept.told() == [(fate, made.id)]
    assert [one.id for one in leftovers.of(gone)] == ["pod-7"]


def real(swept: Swept) -> str:
    """The account calls the cloud that those call which name none."""
    endpoint = called("https://real.example", "").management
    swept.world.account.state = replace(swept.world.account.ready, endpoints=Endpoints(endpoint))
    swept.world.cache.urls = ("https://real.example", "")
    swept.has(ACCOUNT)
    return endpoint


def left(account: ObjectKey, cloud_id: str, endpoint: str, fate: Fate = Fate.KEPT, name: str = "") -> Leftover:
    told = {"organization": "org-1", "endpoint": endpoint, "id": cloud_id, "name": name}
    return Leftover(fate=fate, kind="GpuPod", account=account, since=BEGINNING, **told)


async def is_forgotten(swept: Swept, cloud_id: str) -> None:
    """Once the cloud does not find it twice."""
    swept.world.pods.hidden.add(cloud_id)
    for _ in range(2):
        await swept()
    assert swept.told() == []


async def test_what_another_cloud_claims_to_have_is_neither_taken_over_nor_forgotten(swept: Swept) -> None:
    gone, leftovers = ObjectKey("CloudAccount", "team-b", "default"), swept.world.informer.vanished.leftovers
    swept.world.account.state = replace(swept.world.account.ready, endpoints=Endpoints("own"))
    for account, cloud_id in ((gone, "pod-7"), (ACCOUNT, "pod-8")):
        leftovers.note(left(account, cloud_id, "real"))
    for _ in range(3):
        await swept()
    assert (swept.told(), [one.id for one in leftovers.of(gone)]) == ([(Fate.KEPT, "pod-8")], ["pod-7"])


@pytest.mark.parametrize("fate", [Fate.ORPHAN, Fate.KEPT])
async def test_what_is_only_known_by_its_name_leaves_the_list_once_an_object_has_it(swept: Swept, fate: Fate) -> None:
    made, world = swept.world.pods.add("nightly"), swept.world
    world.informer.vanished.leftovers.note(left(ACCOUNT, "", "", fate, "nightly"))
    asking(swept, "another", ACCOUNT, "adopted", id=made.id)
    await swept()
    assert swept.told() == []


async def test_what_is_seen_by_the_new_url_of_the_account_is_of_the_same_cloud(swept: Swept) -> None:
    made, leftovers = swept.world.pods.add("nightly"), swept.world.informer.vanished.leftovers
    leftovers.note(left(ACCOUNT, made.id, "former", name="nightly"))
    endpoint = real(swept)
    for _ in range(2):
        await swept()
    assert [(one.id, one.endpoint) for one in leftovers.of(ACCOUNT)] == [(made.id, endpoint)]
    await is_forgotten(swept, made.id)


async def test_a_record_of_an_earlier_release_stays_with_its_account_until_that_is_gone(swept: Swept) -> None:
    """A tenant's cloud claims the organization, and finds nothing."""
    leftovers = swept.world.informer.vanished.leftovers
    real(swept)
    spec: JsonValue = {"apiKeySecretRef": {}, "baseUrl": "https://other.example"}
    swept.world.cache.put(ELSEWHERE, {"metadata": {"uid": "a"}, "spec": spec})
    swept.organizations[ELSEWHERE] = "org-1"
    leftovers.note(left(ELSEWHERE, "pod-7", "", Fate.LATE))
    for _ in range(3):
        await swept()
    assert [one.id for one in leftovers.of(ELSEWHERE)] == ["pod-7"]


async def test_a_record_of_an_earlier_release_names_the_cloud_once_that_shows_the_resource(swept: Swept) -> None:
    made, leftovers = swept.world.pods.add("nightly"), swept.world.informer.vanished.leftovers
    leftovers.note(left(ACCOUNT, made.id, "", name="nightly"))
    endpoint = real(swept)
    for _ in range(2):
        await swept()
    assert [(one.id, one.endpoint) for one in leftovers.of(ACCOUNT)] == [(made.id, endpoint)]


@pytest.mark.parametrize("endpoint", ["other", "real"])
async def test_an_account_that_calls_another_cloud_does_not_see_what_is_left(swept: Swept, endpoint: str) -> None:
    """Although that claims the same organization."""
    here, leftovers = real(swept), swept.world.informer.vanished.leftovers
    spec: JsonValue = {"apiKeySecretRef": {}, "baseUrl": f"https://{endpoint}.example"}
    swept.world.cache.put(ELSEWHERE, {"metadata": {"uid": "a"}, "spec": spec})
    swept.organizations[ELSEWHERE] = "org-1"
    leftovers.note(left(ELSEWHERE, "pod-7", here))
    await swept()
    assert swept.told() == ([(Fate.KEPT, "pod-7")] if endpoint == "other" else [])


@pytest.mark.parametrize("holds", ["records it", "asks for it", "keeps it"])
async def test_what_is_somebodys_by_another_url_is_told_and_not_ended(swept: Swept, holds: str) -> None:
    """The other cloud may be this one, or a tenant's own that claims everything."""
    made, cache = swept.world.pods.add(ORPHAN), swept.world.cache
    real(swept)
    spec: JsonValue = {"apiKeySecretRef": {}, "baseUrl": "https://own.example"}
    known: JsonValue = {"organizationId": "org-2" if holds == "records it" else "org-1"}
    cache.put(ELSEWHERE, {"metadata": {"uid": "a"}, "spec": spec, "status": known})
    kept = left(ELSEWHERE, made.id, called("https://own.example", "").management)
    key = ObjectKey("GpuPod", "team-b", "asking")
    match holds:
        case "records it":
            asking(swept, made.id, ELSEWHERE, id=made.id)
        case "asks for it":
            asking(swept, made.id, ELSEWHERE)
        case _:
            swept.organizations[ELSEWHERE] = "org-1"
            swept.world.informer.vanished.leftovers.note(kept)
    await swept()
    assert swept.told() == [(Fate.ORPHAN, made.id)]
    swept.world.clock.seconds += 2 * 86400
    await swept(policy=Orphans.DELETE)
    assert [one.id for one in swept.world.pods.live] == [made.id]
    cache.drop(key)
    swept.world.informer.vanished.leftovers.forget(kept)
    await swept(policy=Orphans.DELETE)
    assert swept.world.pods.live == []


async def test_an_intent_that_cannot_be_read_keeps_no_orphan_that_it_does_not_name(swept: Swept) -> None:
    made, cache = swept.world.pods.add(ORPHAN), swept.world.cache
    await swept()
    swept.world.clock.seconds += 2 * 86400
    metadata: JsonValue = {"uid": "u", "annotations": {CREATE_INTENT: '{"name": "' + ORPHAN}}
    key = ObjectKey("GpuPod", ACCOUNT.namespace, "torn")
    cache.put(key, {"metadata": metadata})
    await swept(policy=Orphans.DELETE)
    assert [one.id for one in swept.world.pods.live] == [made.id]
    cache.drop(key)
    cache.put(key, {"metadata": {"uid": "u2", "annotations": {CREATE_INTENT: "{"}}})
    await swept(policy=Orphans.DELETE)
    assert swept.world.pods.live == []


async def test_what_another_cloud_recorded_hides_no_orphan_though_its_account_is_gone(swept: Swept) -> None:
    made = swept.world.pods.add(ORPHAN)
    real(swept)
    identity: JsonValue = {"organization": "org-1", "uid": "u1", "endpoint": "own"}
    account: JsonValue = {"kind": ELSEWHERE.kind, "name": ELSEWHERE.name}
    status: JsonValue = {"id": made.id, "identity": identity, "account": account}
    key = ObjectKey("GpuPod", ELSEWHERE.namespace, "recording")
    swept.world.cache.put(key, {"metadata": {"uid": "u1"}, "status": status})
    await swept()
    assert swept.told() == [(Fate.ORPHAN, made.id)]


async def test_an_organization_that_another_cloud_told_counts_no_longer_under_a_new_url(swept: Swept) -> None:
    """The account has the URL of this cloud by now, and no key that it takes."""
    made, cache = swept.world.pods.add(ORPHAN), swept.world.cache
    real(swept)
    told: JsonValue = {"organizationId": "org-1", "endpoint": "own"}
    cache.put(ELSEWHERE, {"metadata": {"uid": "a"}, "spec": {"apiKeySecretRef": {}}, "status": told})
    asking(swept, made.id, ELSEWHERE)
    await swept()
    assert swept.told() == [(Fate.ORPHAN, made.id)]


async def test_an_account_has_created_nothing_for_an_object_of_another_namespace(swept: Swept) -> None:
    """Its cloud lists what has the name that such an object gives."""
    uid = "89abcdef-0123"
    cache, key = swept.world.cache, ObjectKey("GpuPod", "team-b", "theirs")
    cache.put(key, {"kind": "GpuPod", "metadata": {"name": "theirs", "namespace": "team-b", "uid": uid}})
    swept.has(ELSEWHERE)
    swept.organizations[ELSEWHERE] = "org-1"
    made = swept.world.pods.add(cloud_name("team-b", "theirs", uid, "c0ffe", 1))
    await swept()
    assert swept.told() == []
    swept.organizations[ELSEWHERE] = "org-2"  # nobody else sees it now
    await swept()
    assert (swept.told(), swept.late) == ([(Fate.ORPHAN, made.id)], [])
    assert swept.world.informer.vanished.leftovers.late(uid) == ()


async def test_what_an_object_of_another_namespace_searches_for_is_left_to_it(swept: Swept) -> None:
    """Its account may call the same cloud by another URL; the record is of a time when it did not search."""
    uid, key = "89abcdef-0123", ObjectKey("GpuPod", "team-b", "theirs")
    name = cloud_name("team-b", "theirs", uid, "c0ffe", 1)
    intent = CreateIntent(token="t", name=name, attempt=1, spec_hash="", started_at=BEGINNING, account="")
    metadata: Json = {"name": "theirs", "namespace": "team-b", "uid": uid}
    bare: Json = {"kind": "GpuPod", "metadata": metadata}
    searching: Json = {**bare, "metadata": metadata | {"annotations": {CREATE_INTENT: intent.to_annotation()}}}
    swept.has(ELSEWHERE)
    swept.organizations[ELSEWHERE] = "org-2"
    swept.world.cache.put(key, searching)
    made = swept.world.pods.add(name)
    await swept()
    assert swept.told() == []
    swept.world.cache.put(key, bare)
    await swept()
    assert swept.told() == [(Fate.ORPHAN, made.id)]
    swept.world.cache.put(key, searching)
    swept.world.clock.seconds += 2 * 86400
    await swept(policy=Orphans.DELETE)
    assert made in swept.world.pods.live
    swept.world.cache.put(key, bare)
    await swept(policy=Orphans.DELETE)
    assert made not in swept.world.pods.live


async def test_a_stray_of_an_object_that_is_being_worked_on_is_left_alone(swept: Swept) -> None:
    """Its create may be under way."""
    uid, key = "89abcdef-0123", ObjectKey("GpuPod", "team-b", "theirs")
    metadata: Json = {"name": "theirs", "namespace": "team-b", "uid": uid}
    swept.world.cache.put(key, {"kind": "GpuPod", "metadata": metadata})
    swept.has(ELSEWHERE)
    swept.organizations[ELSEWHERE] = "org-2"
    swept.world.pods.add(cloud_name("team-b", "theirs", uid, "c0ffe", 1))
    queue = swept.world.reconciler.engine.queue
    queue.add(key, Priority.EVENT)
    await queue.take()
    await swept()
    assert swept.told() == []


async def test_what_makes_a_stray_costly_takes_turns(swept: Swept, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever lists resources chooses their names, and with them the objects that are looked at."""
    for number in range(20):
        swept.world.pods.add(f"{ORPHAN}-{number}")

    def known(*_: object) -> bool:
        swept.world.clock.seconds += 0.03  # as long as it takes
        return True

    monkeypatch.setattr(Leftovers, "known", known)
    with others() as beside:
        await swept()
    assert beside.turns >= 19


async def test_the_objects_that_may_ask_for_an_orphan_are_looked_through_in_turns(
    swept: Swept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep_module, "_OBJECTS_AT_ONCE", 1)
    made = swept.world.pods.add(ORPHAN)
    for number in range(50):
        asking(swept, f"another-{number}", ACCOUNT, f"asking-{number}")
    with others() as beside:
        await swept()
    assert (swept.told(), beside.turns > 50) == ([(Fate.ORPHAN, made.id)], True)


async def test_a_late_batch_is_ended_by_the_inference_api(swept: Swept) -> None:
    """Its record is about the cloud that gives batches their ids."""
    swept.traces["InferenceBatch"] = swept.traces.pop("GpuPod")
    swept.world.account.state = replace(swept.world.account.ready, endpoints=Endpoints("real", "inference"))
    made = swept.world.pods.add(ORPHAN)
    await swept()
    (record,) = swept.world.informer.vanished.leftovers.of(ACCOUNT)
    assert (record.id, record.endpoint) == (made.id, "inference")
    await is_forgotten(swept, made.id)


async def test_what_was_only_known_by_its_name_is_told_once_when_it_is_found(swept: Swept) -> None:
    leftovers = swept.world.informer.vanished.leftovers
    told = {"kind": "GpuPod", "account": ACCOUNT, "organization": "org-1", "name": ORPHAN, "since": BEGINNING}
    leftovers.note(Leftover.model_validate({"fate": Fate.ORPHAN, **told}))
    made = swept.world.pods.add(ORPHAN)
    await swept()
    assert swept.told() == [(Fate.ORPHAN, made.id)]
