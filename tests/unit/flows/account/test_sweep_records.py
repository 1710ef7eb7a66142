"""What is recorded as left in the cloud stays told until two looks in a row do not find it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from relay_operator.api.cloudaccount import Orphans
from relay_operator.api.meta import ObjectKey
from relay_operator.engine.identity import endpoint_of
from relay_operator.engine.leftovers import Fate, Leftover
from relay_operator.kinds.gpupod import GpuPodStatus
from tests.unit.flows.account.swept import ACCOUNT, ELSEWHERE, ORPHAN, Listed, Swept, asking
from tests.unit.flows.managed.cloudpods import lost
from tests.unit.flows.managed.world import BEGINNING

if TYPE_CHECKING:
    from pydantic import JsonValue

    from relay_client import Cloud
    from relay_operator.flows.managed.resource import Look
    from relay_wire.vms import VmRecord


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


@pytest.mark.parametrize("now", ["gone", "of another organization"])
async def test_what_an_account_left_is_looked_after_by_another_of_its_organization(swept: Swept, now: str) -> None:
    made = swept.world.pods.add(ORPHAN)
    gone, leftovers = ObjectKey("CloudAccount", "team-b", "default"), swept.world.informer.vanished.leftovers
    if now == "of another organization":
        swept.has(gone)
        swept.organizations[gone] = "org-2"
    for organization, cloud_id in (("org-1", made.id), ("org-2", "pod-7")):
        leftovers.note(
            Leftover(
                fate=Fate.ORPHAN, kind="GpuPod", account=gone, organization=organization, id=cloud_id, since=BEGINNING
            )
        )
    await swept()
    assert swept.told() == [(Fate.ORPHAN, made.id)]
    assert [one.id for one in leftovers.of(gone)] == ["pod-7"]


async def test_what_another_cloud_claims_to_have_is_neither_taken_over_nor_forgotten(swept: Swept) -> None:
    gone, leftovers = ObjectKey("CloudAccount", "team-b", "default"), swept.world.informer.vanished.leftovers
    swept.world.account.state = replace(swept.world.account.ready, endpoint="own")
    for account, cloud_id in ((gone, "pod-7"), (ACCOUNT, "pod-8")):
        record = Leftover(
            fate=Fate.KEPT,
            kind="GpuPod",
            account=account,
            organization="org-1",
            endpoint="real",
            id=cloud_id,
            since=BEGINNING,
        )
        leftovers.note(record)
    for _ in range(3):
        await swept()
    assert (swept.told(), [one.id for one in leftovers.of(gone)]) == ([(Fate.KEPT, "pod-8")], ["pod-7"])


async def test_an_object_of_another_cloud_has_nothing_to_do_with_what_is_left(swept: Swept) -> None:
    """It records the id of the orphan, and asks for it."""
    made, cache = swept.world.pods.add(ORPHAN), swept.world.cache
    swept.world.account.state = replace(swept.world.account.ready, endpoint=endpoint_of("https://real.example"))
    cache.endpoints = (endpoint_of("https://real.example"), "")
    swept.has(ACCOUNT)
    spec: JsonValue = {"apiKeySecretRef": {}, "baseUrl": "https://own.example"}
    cache.put(ELSEWHERE, {"metadata": {"uid": "a"}, "spec": spec, "status": {"organizationId": "org-1"}})
    asking(swept, made.id, ELSEWHERE)
    asking(swept, made.id, ELSEWHERE, "recording", id=made.id)
    await swept()
    assert swept.told() == [(Fate.ORPHAN, made.id)]
    for _ in range(3):
        await swept()
    swept.world.clock.seconds += 2 * 86400
    await swept(policy=Orphans.DELETE)
    assert swept.world.pods.live == []


async def test_what_was_only_known_by_its_name_is_told_once_when_it_is_found(swept: Swept) -> None:
    leftovers = swept.world.informer.vanished.leftovers
    told = {"kind": "GpuPod", "account": ACCOUNT, "organization": "org-1", "name": ORPHAN, "since": BEGINNING}
    leftovers.note(Leftover.model_validate({"fate": Fate.ORPHAN, **told}))
    made = swept.world.pods.add(ORPHAN)
    await swept()
    assert swept.told() == [(Fate.ORPHAN, made.id)]
