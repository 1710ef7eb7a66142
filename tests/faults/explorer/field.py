"""The ground of a history: two accounts of two organizations, and the objects that people applied."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

from tests.faults import oracles
from tests.faults.explorer.history import PODS
from tests.faults.ground import Ground
from tests.faults.scenarios import LOOKS_AT_AN_ACCOUNT, Kind, Scenario
from tests.faults.steps import apply_another_account

if TYPE_CHECKING:
    from tests.faults.ground import Site
    from tests.support.kube import Kube, Manifest

# Looks at accounts show that time passes, even without any other object.
_SCENARIO: Final = Scenario(Kind("GpuPod", "", "", LOOKS_AT_AN_ACCOUNT), PODS[0], forced=True)
PLENTY: Final = 10**9
"""Cents: enough for days of the cloud's clock."""


@dataclass(frozen=True)
class Field(Ground):
    """The ground of a history."""

    wanted: dict[str, Manifest] = field(default_factory=dict)
    """The desired objects by name."""
    handed: set[tuple[str, str]] = field(default_factory=set)
    """UIDs of objects with what people gave them of others: a cloud id, or the UID part of the names that it gave."""

    @classmethod
    async def laid_out(cls, kube: Kube, site: Site) -> Self:
        """Prepares the ground with both accounts applied, each of an organization with ample funds."""
        made = await cls.prepare(kube, site, "explorer", _SCENARIO)
        await made.apply_account()
        await apply_another_account(made)
        for organization in made.organizations:
            await site.cloud.control.change_organization(organization.id, balanceCents=PLENTY)
        return made

    async def objects(self) -> list[Manifest]:
        """Returns the objects that can cost money."""
        return [item for kind in ("GpuPod", "GpuCluster") for item in await self.kube.list(kind)]

    async def settled(self) -> bool:
        """Whether exactly the desired objects exist and all are Ready."""
        items = await self.objects()
        there = {item["metadata"]["name"] for item in items}
        return there == set(self.wanted) and await super().settled()

    async def at_rest(self) -> bool:
        """True: a history does not wait for rest between acts."""
        return True

    async def verify(self) -> None:
        """Asserts that each living resource is recorded by one object or reported by an account."""
        await self.books.owned(await self.objects(), await self.told())

    async def statuses(self) -> dict[str, Any]:
        """Returns every object's status, without what may differ between two equally good runs."""
        return {item["metadata"]["name"]: oracles.at_rest(item.get("status") or {}) for item in await self.objects()}

    def own_ids(self, recorded: set[tuple[str, str]]) -> None:
        """Asserts that no object recorded an id that was made for another, unless people gave it that id."""
        made = self.site.made
        self.books.own_ids(
            (uid, cloud_id)
            for uid, cloud_id in recorded
            if not {(uid, cloud_id), (uid, oracles.given_by(made.get(cloud_id, "")))} & self.handed
        )

    async def told(self) -> set[str]:
        """Returns ids of resources that accounts report, by id or by name, as left in the cloud without an object."""
        told = [one for _, one in await self.told_by_accounts()]
        ids, names = {one.get("id") for one in told}, {one.get("name") for one in told}
        return {cloud_id for cloud_id, name in self.site.made.items() if cloud_id in ids or name in names}

    async def told_by_accounts(self) -> list[tuple[str, Manifest]]:
        """Returns what each account reports as orphaned or kept, with the account's name."""
        return [
            (account["metadata"]["name"], one)
            for account in await self.kube.list("CloudAccount")
            for what in ("orphans", "kept")
            for one in account.get("status", {}).get(what) or ()
        ]

    async def exposed(self) -> dict[str, str]:
        """Returns what people without access to Secrets can read."""
        return await oracles.exposed(self.kube, ("GpuPod", "GpuCluster", "CloudAccount"))
