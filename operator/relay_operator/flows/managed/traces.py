"""The resources of a managed kind, without an object."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Generic

import orjson

from relay_client import Cloud, NotFound
from relay_operator.api.meta import ObjectKey
from relay_operator.api.workload import SpecT, StatusT
from relay_operator.engine import identity
from relay_operator.engine.address import address
from relay_operator.engine.cache import Cache
from relay_operator.engine.entry import Entry
from relay_operator.engine.identity import Installation
from relay_operator.engine.intent import MAX_NAME, intent_of
from relay_operator.engine.manifests import part
from relay_operator.engine.unclaimed_ids import UnclaimedIds
from relay_operator.flows.managed.resource import ExternalResource, Look, ObsT, Progress

_AT_ONCE: Final = 500
"""Names looked into before other work gets its turn."""


@dataclass(frozen=True, slots=True)
class ManagedTraces(Generic[SpecT, StatusT, ObsT]):
    """The `Traces` of a kind that implements `ExternalResource`."""

    resource: ExternalResource[SpecT, StatusT, ObsT]
    nothing_known: StatusT
    cache: Cache
    installation: Installation

    async def living(self, cloud: Cloud, unclaimed: UnclaimedIds) -> Mapping[str, str]:
        listed = await self.resource.living(cloud, unclaimed)
        found = dict[str, str]()
        for number, (cloud_id, name) in enumerate(listed.items(), start=1):
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
            if not self._anothers(name):
                found[cloud_id] = name
        return found

    def _anothers(self, name: str) -> bool:
        """Whether an object of another kind gave the name: pods and VMs share a list."""
        givers = self.cache.with_name(name, self.installation.name, but="")
        return any(key.kind != self.resource.definition.kind for key in givers)

    async def name_of(self, cloud: Cloud, cloud_id: str) -> str | None:
        try:
            observed = await self.resource.observe(cloud, cloud_id, self.nothing_known, Look.EXACT)
        except NotFound:
            return None
        gone = self.resource.progress(observed) is Progress.GONE
        return None if gone else self.resource.identity(observed)[1]

    async def end(self, cloud: Cloud, cloud_id: str) -> None:
        try:
            await self.resource.delete(cloud, cloud_id)
        except NotFound:
            return

    async def is_restored(self, cloud: Cloud, giver: Entry, name: str) -> bool:
        key = self.giver(name)
        if key is None or not giver.cloud_id:
            return False
        raw = orjson.loads(giver.body)
        status, intent = part(raw, "status"), intent_of(raw)
        tried = status.get("attempt")
        if not isinstance(tried, int | None):
            return False
        recorded = max(tried or 0, intent.attempt if intent is not None else 0)
        ahead = 0 < recorded <= identity.attempt_of(key, giver.uid, self.installation.name, name)
        return ahead and await self.name_of(cloud, address(giver.cloud_id, str(status.get("partOf") or ""))) is None

    def giver(self, name: str) -> ObjectKey | None:
        givers = self.cache.with_name(name, self.installation.name, but="")
        return min((key for key in givers if key.kind == self.resource.definition.kind), default=None)

    def ours(self, name: str) -> bool:
        here = len(name) <= MAX_NAME and identity.of_here(name, self.installation.name)
        return here or self.giver(name) is not None

    def is_searched(self, name: str, giver: Entry) -> bool:
        """Whether an open intent has this very name, not that of another attempt; True if it cannot be read."""
        return giver.searching and (giver.sent is None or giver.sent.name == name)
