"""Where a history is played: two accounts of two organizations, and whatever people have applied."""

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

# Looks at accounts tell that time passes, whether or not there is anything else to look at.
_SCENARIO: Final = Scenario(Kind("GpuPod", "", "", LOOKS_AT_AN_ACCOUNT), PODS[0], forced=True)
PLENTY: Final = 10**9
"""Cents: the cloud's clock may go on for days."""


@dataclass(frozen=True)
class Field(Ground):
    """The ground of a history."""

    wanted: dict[str, Manifest] = field(default_factory=dict)
    """What people want to be there, by names."""
    handed: set[tuple[str, str]] = field(default_factory=set)
    """UIDs of objects, and what people gave them of others: an id by `adopt-id`, or in a backup all that a UID had."""

    @classmethod
    async def laid_out(cls, kube: Kube, site: Site) -> Self:
        """Both accounts applied, each of an organization with plenty of money."""
        made = await cls.prepare(kube, site, "explorer", _SCENARIO)
        await made.apply_account()
        await apply_another_account(made)
        for organization in made.organizations:
            await site.cloud.control.change_organization(organization.id, balanceCents=PLENTY)
        return made

    async def objects(self) -> list[Manifest]:
        """Whatever can cost money."""
        return [item for kind in ("GpuPod", "GpuCluster") for item in await self.kube.list(kind)]

    async def settled(self) -> bool:
        """Whether there is what people want and nothing else, and all of it is Ready."""
        items = await self.objects()
        there = {item["metadata"]["name"] for item in items}
        return there == set(self.wanted) and await super().settled()

    async def at_rest(self) -> bool:
        """Nobody waits for that in mid-history."""
        return True

    async def verify(self) -> None:
        """Whatever is alive is recorded by one object, or told by an account; raises AssertionError."""
        await self.books.owned(await self.objects(), await self.told())

    async def statuses(self) -> dict[str, Any]:
        """Every object's, without what differs between two runs that went equally well."""
        return {item["metadata"]["name"]: oracles.at_rest(item.get("status") or {}) for item in await self.objects()}

    def own_ids(self, recorded: set[tuple[str, str]]) -> None:
        """No object was ever given an id that was made for another, but by people; raises AssertionError."""
        made = self.site.made
        self.books.own_ids(
            (uid, cloud_id)
            for uid, cloud_id in recorded
            if not {(uid, cloud_id), *((uid, word) for word in made.get(cloud_id, "").split("-"))} & self.handed
        )

    async def told(self) -> set[str]:
        """Ids of what accounts tell of, by id or by name: people forced its object away, or left it in the cloud."""
        told = [one for _, one in await self.told_by_accounts()]
        ids, names = {one.get("id") for one in told}, {one.get("name") for one in told}
        return {cloud_id for cloud_id, name in self.site.made.items() if cloud_id in ids or name in names}

    async def told_by_accounts(self) -> list[tuple[str, Manifest]]:
        """Accounts' names, and what each tells that nobody ends."""
        return [
            (account["metadata"]["name"], one)
            for account in await self.kube.list("CloudAccount")
            for what in ("orphans", "kept")
            for one in account.get("status", {}).get(what) or ()
        ]

    async def exposed(self) -> dict[str, str]:
        """What people without access to Secrets can read."""
        return await oracles.exposed(self.kube, ("GpuPod", "GpuCluster", "CloudAccount"))
