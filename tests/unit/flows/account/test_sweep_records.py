"""What is recorded as left in the cloud stays told until two looks in a row do not find it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from relay_operator.api.meta import ObjectKey
from relay_operator.engine.leftovers import Fate, Leftover
from relay_operator.kinds.gpupod import GpuPodStatus
from tests.unit.flows.account.swept import ACCOUNT, ORPHAN, Listed, Swept
from tests.unit.flows.managed.cloudpods import lost
from tests.unit.flows.managed.world import BEGINNING

if TYPE_CHECKING:
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


async def test_what_was_only_known_by_its_name_is_told_once_when_it_is_found(swept: Swept) -> None:
    leftovers = swept.world.informer.vanished.leftovers
    told = {"kind": "GpuPod", "account": ACCOUNT, "organization": "org-1", "name": ORPHAN, "since": BEGINNING}
    leftovers.note(Leftover.model_validate({"fate": Fate.ORPHAN, **told}))
    made = swept.world.pods.add(ORPHAN)
    await swept()
    assert swept.told() == [(Fate.ORPHAN, made.id)]
