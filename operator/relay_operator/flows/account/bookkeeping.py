"""What an account's organization spent, and on whose resources, even if their objects are gone.

Live objects show whose an id is. A ConfigMap beside the account keeps the owners of ids whose objects are deleted. It
is written after each look that found something new, so the next process finds again whatever this one had not written,
except for objects that were created and deleted since the last look.
"""

import logging
from collections import Counter, OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from weakref import WeakValueDictionary

from relay_kube.errors import KubeError, NotFound, Refused
from relay_kube.kube import CONFIG_MAPS, JsonObject
from relay_operator.api.meta import ANNOTATION_PREFIX, ObjectKey
from relay_operator.engine.account import AccountReady
from relay_operator.engine.engine import Engine
from relay_operator.engine.entry import Entry
from relay_operator.engine.manifests import is_owned_by, owner, part, texts
from relay_operator.flows.account.owners import MOST_VALUES, Evidence, Holder, Owners, owner_of, read
from relay_operator.flows.account.spend import Month, Owner, cents_by_id, month_of, names_by_id
from relay_wire.billing import CurrentUsage

logger = logging.getLogger(__name__)

LABEL: Final = f"{ANNOTATION_PREFIX}spend"
_KEY: Final = "owners.json"
_PREFIX: Final = "relay-spend-"
_CLUSTER_PREFIX: Final = "relay-cluster-spend-"
"""Not a CloudAccount's prefix plus a name: the operator's own namespace may have CloudAccounts, too."""
_LONGEST_NAME = 253
REMEMBERED = 10_000
"""Former holders remembered; of further ones, the oldest of the namespace with the most goes."""
HOLDERS: Final = 16
"""Holders of one id looked at in each namespace, so that no namespace hides another's."""
_AT_ONCE = 500
"""Ids and their holders processed before other work gets its turn."""


@dataclass(slots=True)
class Departed:
    """Objects that recently stopped recording an id, so that one deleted between two looks is still known."""

    _holders: dict[str, OrderedDict[tuple[ObjectKey | None, str, str], Holder]] = field(default_factory=dict)
    """By namespace; then by account, cloud id and UID, the oldest first."""
    _number: int = 0

    def note(self, key: ObjectKey, entry: Entry, account: ObjectKey | None) -> None:
        """Note that the object recorded this id, with this account, and no longer does."""
        holders, row = self._holders.setdefault(key.namespace, OrderedDict()), (account, entry.cloud_id, entry.uid)
        self._number += row not in holders
        holders[row] = Holder(key, entry.uid, entry.cost_center)
        holders.move_to_end(row)
        if self._number > REMEMBERED:
            most = max(self._holders, key=lambda namespace: len(self._holders[namespace]))
            self._holders[most].popitem(last=False)
            self._number -= 1
            if not self._holders[most]:
                del self._holders[most]

    def of(self, account: ObjectKey) -> dict[str, list[Holder]]:
        """The former holders of each id that used this account, of each namespace the latest first, and not all."""
        found: dict[str, list[Holder]] = {}
        for holders in self._holders.values():
            for (used, cloud_id, _), holder in reversed(holders.items()):
                if used == account:
                    found.setdefault(cloud_id, []).append(holder)
        return {cloud_id: _some(holders) for cloud_id, holders in found.items()}


def _some(holders: Iterable[Holder]) -> list[Holder]:
    """The first holders of each namespace."""
    kept, numbers = list[Holder](), Counter[str]()
    for holder in holders:
        numbers[holder.key.namespace] += 1
        if numbers[holder.key.namespace] <= HOLDERS:
            kept.append(holder)
    return kept


_NOTHING: Final = Owners("", "")


@dataclass(slots=True, weakref_slot=True)
class Books:
    """What one process knows of the owners of ids; None until it was read."""

    owners: Owners | None = None
    is_stored: bool = True
    """Whether the ConfigMap has the same owners."""


@dataclass(frozen=True, slots=True)
class Page:
    """Identifies the books of one account."""

    account: ObjectKey
    uid: str

    @property
    def name(self) -> str:
        """The name of the ConfigMap."""
        prefix = _PREFIX if self.account.namespace else _CLUSTER_PREFIX
        return f"{prefix}{self.account.name}"[:_LONGEST_NAME].rstrip("-.")


@dataclass(frozen=True, slots=True)
class Bookkeeper:
    """Attributes what organizations use to its owners."""

    engine: Engine
    departed: Departed
    namespace: str
    """The operator's own namespace, which keeps the books of accounts that several namespaces share."""
    kept: WeakValueDictionary[ObjectKey, Books] = field(default_factory=WeakValueDictionary)
    """The books of all accounts."""

    async def account(
        self, page: Page, ready: AccountReady, usage: CurrentUsage, books: Books, now: datetime, *, read_only: bool
    ) -> tuple[Month | None, str]:
        """What was spent this month, and why the owners cannot be recorded or read, if so.

        The month is None if the ConfigMap cannot be read at the moment, since too little would be attributed.
        """
        before = books.owners
        if before is None:
            if not usage.breakdown:
                return month_of(usage, {}, now), ""
            try:
                before = await self._read(page)
            except Refused as refused:
                living = await self._found(page, ready, usage, _NOTHING)
                return month_of(usage, living, now), f"the owners of what is gone cannot be read: {refused}"
            except KubeError as error:
                logger.info("what %s spent cannot be shown: %s", page.account, error)
                return None, ""
        owners = before.at(ready.organization_id, now)
        owners = owners.with_those(await self._found(page, ready, usage, owners))
        await self.engine.sleep(0)
        cents = cents_by_id(usage)
        await self.engine.sleep(0)
        books.owners = owners.fitting(cents, most_values=self._room(page.account, books))
        books.is_stored = books.is_stored and books.owners == before
        await self.engine.sleep(0)
        trouble = "" if read_only else await self._save(page, books, books.owners)
        return month_of(usage, owners.current, now), trouble

    def _room(self, account: ObjectKey, books: Books) -> int:
        """How many values the account's book may have: those that the other accounts of its namespace leave."""
        self.kept[account] = books
        others = [
            each.owners.values
            for key, each in self.kept.items()
            if key != account and account.namespace and key.namespace == account.namespace and each.owners is not None
        ]
        return MOST_VALUES - sum(others)

    async def _found(self, page: Page, ready: AccountReady, usage: CurrentUsage, owners: Owners) -> dict[str, Owner]:
        """The owner of each id in the usage, as far as it is known."""
        found, departed, cache = dict[str, Owner](), self.departed.of(page.account), self.engine.cache
        installation, work = self.engine.installation.name, 0
        for cloud_id, name in names_by_id(usage).items():
            if work >= _AT_ONCE:
                await self.engine.sleep(0)
                work = 0
            keys, former = cache.with_cloud_id(cloud_id), departed.get(cloud_id, ())
            work += 1 + len(keys) + len(former)
            known, before = owners.current.get(cloud_id), owners.last.get(cloud_id)
            living = self._living(page.account, keys)
            if known is None or [one.owner for one in living] != [known]:  # otherwise the owner is known and lives
                living += self._living(page.account, cache.with_name(name, installation, but=""))
                evidence = Evidence(name, living, former, known, before)
                known = owner_of(evidence, installation, adoptable=ready.adoption_allowed)
            if known is not None:
                found[cloud_id] = known
        return found

    def _living(self, account: ObjectKey, keys: frozenset[ObjectKey]) -> list[Holder]:
        """The objects of these that use the account, and not all."""
        cache = self.engine.cache
        return _some(
            Holder(key, entry.uid, entry.cost_center)
            for key in sorted(keys)
            if cache.account_of(key) == account and (entry := cache.get(key)) is not None
        )

    async def _read(self, page: Page) -> Owners:
        """The owners in the ConfigMap. Raises Refused, also if somebody else owns the ConfigMap, and KubeError."""
        there = await self._there(page)
        text = texts(part(there, "data"), encoded=False).get(_KEY) if there is not None else None
        kept = read(text, page.account.namespace) if text is not None else None
        if text is not None and kept is None:
            logger.error("the ConfigMap %s of %s cannot be read: it is written again", page.name, page.account)
        return kept or _NOTHING

    async def _save(self, page: Page, books: Books, owners: Owners) -> str:
        """Write the owners if they changed; returns why that was refused. After another error the next look retries."""
        if books.is_stored or not (owners.current or owners.last):
            return ""
        try:
            await self._write(page, {"data": {_KEY: owners.text()}})
        except Refused as refused:
            return f"the owners of what was used cannot be recorded: {refused}"
        except KubeError as error:
            logger.info("the owners of what %s used are not recorded yet: %s", page.account, error)
        else:
            books.is_stored = True
        return ""

    async def _write(self, page: Page, data: JsonObject) -> None:
        """Create or patch the ConfigMap. Raises Refused, KubeError."""
        there, kube, namespace = await self._there(page), self.engine.kube, self._where(page)
        if there is not None:
            version = part(there, "metadata").get("resourceVersion")
            await kube.patch(CONFIG_MAPS, namespace, page.name, {"metadata": {"resourceVersion": version}, **data})
            return
        metadata: JsonObject = {
            "name": page.name,
            "namespace": namespace,
            "labels": {LABEL: "true"},
            "ownerReferences": [owner(page.account, page.uid)],
        }
        await kube.create(CONFIG_MAPS, namespace, {"metadata": metadata, **data})

    async def _there(self, page: Page) -> JsonObject | None:
        """The ConfigMap; None if it does not exist. Raises Refused if somebody else owns it, and KubeError."""
        namespace = self._where(page)
        try:
            found = await self.engine.kube.get(CONFIG_MAPS, namespace, page.name)
        except NotFound:
            return None
        if not is_owned_by(found, page.uid):
            taken = f"the ConfigMap {page.name} in the namespace {namespace} is not this account's: delete it"
            raise Refused(409, "Taken", taken)
        return found

    def _where(self, page: Page) -> str:
        return page.account.namespace or self.namespace
