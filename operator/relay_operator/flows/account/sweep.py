"""Finds resources of an account's organization that no object knows, reports them, and deletes them if that is safe.

The cloud can act on a create long after the operator gave it up, and an object can be removed by force. A resource
that is left over is recognized by its name, since each attempt's name comes from its object.
"""

import logging
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from relay_client import CloudError, Unauthorized
from relay_client.operations import INFERENCE_NAMES
from relay_operator.api.cloudaccount import Orphans
from relay_operator.api.meta import ObjectKey
from relay_operator.engine.account import AccountReady
from relay_operator.engine.engine import Engine
from relay_operator.engine.entry import Entry
from relay_operator.engine.leftover import Fate, Leftover
from relay_operator.engine.leftovers import LeftoversFullError
from relay_operator.engine.manifests import part
from relay_operator.engine.queue import Priority
from relay_operator.engine.traces import Traces
from relay_operator.flows.account.strays import Stray, fate_of, in_turn, onward, to_end, unseen
from relay_wire.billing import CurrentUsage

logger = logging.getLogger(__name__)

_LOOKS = 10
"""The most requests about strays, late creates and other leftovers each, per sweep: other objects have to wait."""
_FIRST = 2
"""The number of first sweeps of a process that read the lists in any case."""
REMEMBERED: Final = 5_000
"""Resources of an account whose hours are remembered, and as many whose last look is; forgotten ones are looked at."""
_AT_ONCE, _OBJECTS_AT_ONCE = 500, 5_000
"""Resources thought about, and objects looked through for one, before other work gets its turn."""
_SLICE = 0.02
"""Seconds after which it gets its turn in any case: who gives the names can make each of them costly."""
_GONE = 2
"""Consecutive looks without the resource that prove its end."""
_ANXIOUS = timedelta(days=1).total_seconds()
"""How long sweeps stay frequent after a create with an unknown outcome."""


@contextmanager
def _tolerant(kind: str) -> Iterator[None]:
    """Log an error of the cloud for one kind, which the next sweep asks again. Raises Unauthorized.

    That of the inference URL, which may be another server, says nothing about the account.
    """
    try:
        yield
    except CloudError as error:
        if isinstance(error, Unauthorized) and error.operation not in INFERENCE_NAMES:
            raise
        logger.info("what is left of %s in the cloud cannot be looked at: %s", kind, error)


@dataclass(slots=True)
class SweepMemory:
    """What one process remembers between the sweeps of an account; times are monotonic seconds."""

    hours: dict[str, float] = field(default_factory=dict)
    """Hours in the usage, by resource id, at the last check whether the resource lives; the latest check is last."""
    missing: Counter[str] = field(default_factory=Counter)
    """How often in a row each leftover was not found."""
    looked: dict[str, int] = field(default_factory=dict)
    """The sweep in which each id was last looked at."""
    after: str = ""
    """The last id that was looked at without a remembered look: others like it have their turn from here on."""
    anxious_until: float = 0.0
    sweeps: int = 0
    """Sweeps so far. A new process knows of no create with an unknown outcome, so its first sweeps read the lists."""

    def look(self, cloud_id: str) -> None:
        """Note a look in this sweep."""
        if cloud_id not in self.looked:
            self.after = cloud_id
        self.looked[cloud_id] = self.sweeps

    def check(self, cloud_id: str, hours: float) -> None:
        """Note a check at these hours."""
        self.hours.pop(cloud_id, None)
        self.hours[cloud_id] = hours
        if len(self.hours) > REMEMBERED:
            del self.hours[next(iter(self.hours))]

    def only(self, found: Container[str], left: set[str]) -> None:
        """Forget looks at what is no longer found, and at the rest the earliest, but none at a leftover."""
        strays = [cloud_id for cloud_id in self.looked if cloud_id in found and cloud_id not in left]
        kept = left.union(sorted(strays, key=self.looked.__getitem__)[-REMEMBERED:])
        self.looked = {cloud_id: last for cloud_id, last in self.looked.items() if cloud_id in kept}


@dataclass(frozen=True, slots=True)
class Sweeper:
    """Sweeps accounts. Raises Unauthorized, KubeError."""

    engine: Engine
    traces: Mapping[str, Traces]
    """The traces of each kind."""
    everywhere: bool
    """Whether this operator watches all namespaces; if not, another operator may know the object behind a name."""
    on_late: Callable[[str], None]
    """Called with the kind of each late create."""
    organization_of: Callable[[ObjectKey], str | None]
    """The organization of an account; None if unknown."""

    def anxious(self, account: ObjectKey, ready: AccountReady, memory: SweepMemory) -> bool:
        """Whether the cloud may have, or be about to get, something that no object records."""
        if self.engine.cache.searching(account):
            memory.anxious_until = self.engine.clock() + _ANXIOUS
        records = self.engine.leftovers.of(account)
        late = any(record.fate is Fate.LATE and ready.reach.is_in_cloud_of(record) for record in records)
        unsure = memory.sweeps < _FIRST or self.engine.clock() < memory.anxious_until
        return late or unsure or any(ready.unclaimed.nameless())

    async def sweep(
        self, ready: AccountReady, usage: CurrentUsage | None, policy: Orphans, memory: SweepMemory, now: datetime
    ) -> None:
        """Look for unknown resources, and check on known leftovers; skips what the key may not read."""
        hours = dict(unseen(memory.hours, usage))
        found = {stray.id: stray for stray in hours}
        if self.anxious(ready.key, ready, memory):
            for kind, traces in self.traces.items():
                with _tolerant(kind):
                    living = await traces.living(ready.cloud, ready.unclaimed)
                    found |= {cloud_id: Stray(kind, cloud_id, name) for cloud_id, name in living.items()}
        memory.sweeps += 1
        if usage is not None and usage.breakdown is not None:
            month = {item.resource_id for item in usage.breakdown}
            memory.hours = {cloud_id: told for cloud_id, told in memory.hours.items() if cloud_id in month}
        self.engine.leftovers.move(ready.reach, partial(self._is_in_it, ready))
        fates = await self._fates(ready, found.values())
        self._forget_found(ready, found.values())
        memory.only(found, {record.id for record in self.engine.leftovers.of(ready.key)})
        for stray in in_turn(onward(fates, memory.after), memory.looked, _LOOKS):
            memory.look(stray.id)
            if not await self._is_asked_for(ready, stray):
                with _tolerant(stray.kind):
                    await self._confirm(ready, stray, fates[stray], now)
                    if stray in hours:
                        memory.check(stray.id, hours[stray])
        await self.engine.leftovers.save(())
        await self._look_after(ready, policy, memory, now)
        await self.engine.leftovers.save(())

    async def _fates(self, ready: AccountReady, found: Iterable[Stray]) -> dict[Stray, Fate]:
        fates, since = dict[Stray, Fate](), self.engine.clock()
        for number, stray in enumerate(found, start=1):
            if number % _AT_ONCE == 0 or self.engine.clock() - since > _SLICE:
                await self.engine.sleep(0)
                since = self.engine.clock()
            if (fate := self._fate(ready, stray)) is not None:
                fates[stray] = fate
        return fates

    def _forget_found(self, ready: AccountReady, found: Iterable[Stray]) -> None:
        """Forget what only its name is known of, if an object records the resource with that name by now."""
        named = {record.name: record for record in self.engine.leftovers.of(ready.key) if record.by_name_alone}
        for stray in found if named else ():
            record = named.get(stray.name)
            if record is not None and self._has_object(ready, stray.id):
                self._forget(record)

    def _has_object(self, ready: AccountReady, cloud_id: str) -> bool:
        """Whether an object records this id of the account's cloud.

        One being deleted, which may have recorded it just now, will be gone next.
        """
        cache = self.engine.cache
        holders = [cache.get(key) for key in cache.others(ready.key, cloud_id)]
        return any(holder is not None and not holder.deleting for holder in holders)

    def _fate(self, ready: AccountReady, stray: Stray) -> Fate | None:
        """The stray's fate; None to leave it alone, or if its object will find it."""
        cache, leftovers, traces = self.engine.cache, self.engine.leftovers, self.traces[stray.kind]
        if cache.others(ready.key, stray.id) or not traces.ours(stray.name):
            return None
        key, entry = self._giver(stray)
        recorded = leftovers.known(ready.reach, stray.kind, stray.id, entry.uid if entry is not None else "")
        known = recorded or (entry is not None and entry.says(stray.id))
        if known or leftovers.kept(ready.reach, stray.id, stray.name):
            return None
        searched = entry is not None and traces.is_searched(stray.name, entry)
        settled = key is None or not self.engine.queue.is_working(key)
        if key is not None and ready.key.namespace not in {"", key.namespace}:
            # The account has not created it for that object; it may be the only one that sees it.
            seen = self.everywhere and settled and not searched and self._sees(ready, cache.account_of(key))
            return Fate.ORPHAN if seen else None
        here = key is not None and self._sees(ready, cache.account_of(key))
        if key is not None and here and searched:  # the object itself finds it
            ready.unclaimed.learn(stray.id, stray.name)
            self.engine.queue.add(key, Priority.EVENT)
            return None
        return fate_of(given=entry is not None, here=here, settled=settled, watched=self.everywhere)

    def _is_in_it(self, ready: AccountReady, account: ObjectKey, named: bool) -> bool:
        """Whether this account exists, and is of the same organization, or may be.

        A record that names no cloud stays with its account, whatever that calls.
        """
        in_it = self.organization_of(account) in {None, ready.organization_id}
        cache = self.engine.cache
        here = not named or cache.endpoint(account) == ready.endpoints.management
        return in_it and here and cache.get(account) is not None

    def _sees(self, ready: AccountReady, account: ObjectKey | None) -> bool:
        """Whether no other account can take care of what was made for an object that now uses `account`."""
        other = self.organization_of(account) if account is not None else None
        if account is None or account == ready.key or other is None:
            return account == ready.key
        return (other, self.engine.cache.endpoint(account)) != (ready.organization_id, ready.endpoints.management)

    async def _confirm(self, ready: AccountReady, stray: Stray, fate: Fate, now: datetime) -> None:
        """Report and record the stray if it lives: lists and usage can lag."""
        traces = self.traces[stray.kind]
        if await traces.name_of(ready.cloud, stray.id) != stray.name:
            return
        key, entry = self._giver(stray)
        if fate is Fate.LATE and entry is not None and await traces.is_restored(ready.cloud, entry, stray.name):
            fate = Fate.ORPHAN  # it may be what the object had, and takes when it creates it again
        record = Leftover(
            fate=fate,
            kind=stray.kind,
            account=ready.key,
            organization=ready.organization_id,
            endpoint=ready.endpoints.of(stray.kind),
            id=stray.id,
            name=stray.name,
            of=f"{key.namespace}/{key.name}" if key is not None else "",
            uid=entry.uid if entry is not None else "",
            since=now,
        )
        try:
            self.engine.leftovers.note(record)
        except LeftoversFullError as full:  # a later sweep finds the stray again
            logger.info("%s %s of %s is not recorded: %s", stray.kind, stray.id, ready.key, full)
            return
        known_by_name = self.engine.leftovers.by_name(ready.reach, stray.kind, stray.name)
        if known_by_name is not None and known_by_name.fate is Fate.ORPHAN:
            self.engine.leftovers.forget(known_by_name)
        if fate is Fate.LATE:
            self.on_late(stray.kind)
            self._wake(record)

    def _wake(self, record: Leftover) -> None:
        """Wake the leftover's object, which reports it."""
        namespace, _, name = record.of.partition("/")
        self.engine.queue.add(ObjectKey(record.kind, namespace, name), Priority.CHANGE)

    def _asked_for(self, ready: AccountReady, record: Leftover) -> bool:
        """Whether an object claims what is left, wherever it may be, or, if it is an orphan, searches for it."""
        orphan = record.fate is Fate.ORPHAN
        given = self._by_giver(record, searched=orphan)
        claims = self._claims(ready, record, any_cloud=True, searched=orphan)
        return any(claims(key, entry) for key, entry in self.engine.cache.items()) if given is None else given

    async def _is_asked_for(self, ready: AccountReady, stray: Stray) -> bool:
        """Whether an object of this cloud claims the stray."""
        if (given := self._by_giver(stray, searched=False)) is not None:
            return given
        claims = self._claims(ready, stray, any_cloud=False, searched=False)
        for number, (key, entry) in enumerate(self.engine.cache.items(), start=1):
            if number % _OBJECTS_AT_ONCE == 0:
                await self.engine.sleep(0)
            if claims(key, entry):
                return True
        return False

    def _by_giver(self, found: Stray | Leftover, *, searched: bool) -> bool | None:
        """Whether the object that gave the name claims it: nobody else may adopt it; None without such an object.

        With `searched`, a search for it is a claim, too.
        """
        _, entry = self._giver(found)
        if entry is None:
            return None
        return entry.says(found.id) or (searched and self.traces[found.kind].is_searched(found.name, entry))

    def _giver(self, found: Stray | Leftover) -> tuple[ObjectKey | None, Entry | None]:
        """The object that gave the name, with its entry; None for either if there is none."""
        key = self.traces[found.kind].giver(found.name)
        return key, self.engine.cache.get(key) if key is not None else None

    def _claims(
        self, ready: AccountReady, found: Stray | Leftover, *, any_cloud: bool, searched: bool
    ) -> Callable[[ObjectKey, Entry], bool]:
        """Returns whether an object claims what was found: all of this organization count, since its own is gone.

        With `any_cloud`, those count whose cloud may be this one under another URL.
        """
        traces, given = self.traces[found.kind], found.name.partition("/")[0].encode()

        def claims(key: ObjectKey, entry: Entry) -> bool:
            if key.kind != found.kind:
                return False
            # Of others than the giver: an intent that cannot be read seeks only what it names.
            seeks = searched and entry.searching and given in entry.body and traces.is_searched(found.name, entry)
            return (seeks or entry.says(found.id)) and self._may_have(ready, key, entry, any_cloud=any_cloud)

        return claims

    def _may_have(self, ready: AccountReady, key: ObjectKey, entry: Entry, *, any_cloud: bool) -> bool:
        """Whether the object can own something in this organization, by its account or by what its status records."""
        account = self.engine.cache.account_of(key)
        if account is None or account == ready.key:
            return account is not None
        told = self.engine.cache.get(account)
        status = told.status() if told is not None else {}
        here = self.engine.cache.endpoint(key) in {"", ready.endpoints.of(key.kind)}
        said_here = status.get("endpoint") in {None, ready.endpoints.management}
        if not (any_cloud or (here and said_here)):
            return False
        before = status.get("organizationId")
        known = {part(entry.status(), "identity").get("organization"), self.organization_of(account) or before}
        return ready.organization_id in known

    async def _look_after(self, ready: AccountReady, policy: Orphans, memory: SweepMemory, now: datetime) -> None:
        """Delete the leftovers that are due, and forget those that are gone or have an object again."""
        for record in self._in_turn(ready, memory):
            if self.engine.cache.others(ready.key, record.id):
                if self._has_object(ready, record.id):
                    self._forget(record)
                continue
            with _tolerant(record.kind):
                await self._look_at(ready, record, policy, memory, now)

    async def _look_at(
        self, ready: AccountReady, record: Leftover, policy: Orphans, memory: SweepMemory, now: datetime
    ) -> None:
        name = await self.traces[record.kind].name_of(ready.cloud, record.address)
        if record.endpoint != ready.endpoints.of(record.kind) and name == record.name and name:
            with suppress(LeftoversFullError):  # it is seen again
                self.engine.leftovers.seen_in(ready.reach, record)
        if not ready.reach.is_in_cloud_of(record):  # another URL is called by now: its 404 proves nothing
            return
        memory.missing[record.config_map] = memory.missing[record.config_map] + 1 if name is None else 0
        if memory.missing[record.config_map] >= _GONE:
            self._forget(record)
        elif name == record.name and self._ends(ready, record, policy, now):
            logger.warning("ending %s %s (%s): %s", record.kind, record.id, record.name, record.fate)
            guarded = ready.cloud.guarded(partial(self._nobodys, ready, record))
            await self.traces[record.kind].end(guarded, record.address)

    def _ends(self, ready: AccountReady, record: Leftover, policy: Orphans, now: datetime) -> bool:
        ours = self.traces[record.kind].ours(record.name)
        ends = to_end(record, policy, now, everywhere=self.everywhere, ours=ours)
        return ends and self._nobodys(ready, record)

    def _nobodys(self, ready: AccountReady, record: Leftover) -> bool:
        """Whether no object has it, asks for it or protects it; checked again right before the first byte is sent."""
        cache, leftovers = self.engine.cache, self.engine.leftovers
        _, entry = self._giver(record)
        # Of any cloud: one cloud may have been called by several URLs.
        if cache.with_cloud_id(record.id) or (entry is not None and entry.spared):
            return False
        if leftovers.kept(ready.reach, record.id, record.name, any_cloud=True):
            return False
        return not self._asked_for(ready, record)

    def _in_turn(self, ready: AccountReady, memory: SweepMemory) -> list[Leftover]:
        """The leftovers that this sweep looks at with this organization's key, late creates first."""
        own = [
            record
            for record in self.engine.leftovers.of(ready.key)
            if record.id and record.organization in {"", ready.organization_id} and record.kind in self.traces
        ]
        late = [record for record in own if record.fate is Fate.LATE]
        rest = [record for record in own if record.fate is not Fate.LATE]
        chosen = [*in_turn(late, memory.looked, _LOOKS), *in_turn(rest, memory.looked, _LOOKS)]
        memory.looked |= {record.id: memory.sweeps for record in chosen}
        memory.missing = Counter({record.config_map: memory.missing[record.config_map] for record in own})
        return chosen

    def _forget(self, record: Leftover) -> None:
        logger.info("%s %s is gone, or has an object again: it leaves the list", record.kind, record.id)
        self.engine.leftovers.forget(record)
        if record.fate is Fate.LATE:
            self._wake(record)
