"""Decides which objects may start to cost something, and which wait for room in a budget.

A grant is written on its object before anything is sent (`Reservation`), and the cache adds these up. This process
keeps only the grants that are not written yet, so that a new leader counts what the former one granted.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from math import inf
from typing import Final, NamedTuple

from relay_operator.api.conditions import Reason
from relay_operator.api.meta import ObjectKey
from relay_operator.budgets.limits import Funds, beyond_account, beyond_namespace, can_fit, counted, of_namespace
from relay_operator.budgets.lines import Age, Line, Lines
from relay_operator.engine.account import AccountReady
from relay_operator.engine.cache import Cache
from relay_operator.engine.commitment import NOTHING, Commitment
from relay_operator.engine.entry import LARGEST
from relay_operator.engine.queue import Priority, Queue

_BEHIND: Final = "an older object waits for what is free"
_BEGINS_SECONDS: Final = 900.0
"""How long what was not paid in full when its object was released may take until the organization's burn shows it."""
_PLANS_AT_ONCE: Final = 32
"""How many plans are looked at when something becomes free."""
_PLANS_AT_A_LOOK: Final = 500
"""How many plans of an account are looked at after a look at it: everybody waits for that. They take turns."""


class _Grant(NamedTuple):
    account: ObjectKey
    need: Commitment


class _Refused(NamedTuple):
    """A request that was made for a plan."""

    age: Age
    account: AccountReady
    need: Commitment
    runs: bool


class _Left(NamedTuple):
    """What a released object leaves in the cloud."""

    uid: str
    account: ObjectKey
    had: Commitment
    shown_from: float
    """The first look from this time on (seconds of the queue's clock) shows it in the organization's burn."""


class Paid(NamedTuple):
    """What is being paid at some moment, as far as this cluster's objects tell."""

    cents: Mapping[str, int]
    """Per hour, by namespace, as far as it counts for the account."""
    lapsed: Counter[str]
    """What objects ceased to show since the last look, by namespace."""
    left: list[ObjectKey]
    """Objects that are gone, and whose resources the organization's burn shows by now."""


@dataclass(slots=True)
class Budgets:
    """Grants and lines. No method awaits, so that no other request can come between a question and its grant."""

    cache: Cache
    queue: Queue[ObjectKey]
    _granted: dict[ObjectKey, _Grant] = field(default_factory=dict)
    """Grants that the objects may not show yet."""
    _planned: dict[ObjectKey, _Refused] = field(default_factory=dict)
    """Plans without room: they take no place in a line, and are called once they would be granted."""
    _funds: dict[ObjectKey, tuple[str, Funds]] = field(default_factory=dict)
    """By account, with its organization: a recreated account may have the key of another one."""
    _left: dict[ObjectKey, _Left] = field(default_factory=dict)
    """Resources that stay without an object, until a look at the account shows them in the organization's burn."""
    _lapsed: dict[ObjectKey, Counter[str]] = field(default_factory=dict)
    """By account and namespace: what objects have ceased to show as being paid since the last look."""
    _doubted: set[ObjectKey] = field(default_factory=set)
    """Accounts without room if what lapsed counts, and with room otherwise: another look tells."""
    _admitted: dict[ObjectKey, dict[str, float]] = field(default_factory=dict)
    """By shared account: until when (seconds of the queue's clock) the reservations of a namespace count."""
    _known: set[ObjectKey] = field(default_factory=set)
    """Accounts whose lines contain the objects that already waited when this process began."""
    _lines: Lines = field(init=False)

    def __post_init__(self) -> None:
        self.cache.on_freed, self.cache.on_lapsed = self._call_next, self._lapse
        self._lines = Lines(self._waits)

    def ask(self, key: ObjectKey, age: Age, account: AccountReady, need: Commitment, *, runs: bool = True) -> str:
        """Empty if the need is granted, and counts from now on; else what the object waits for.

        `runs`: what the object shows as being paid still is, as far as the cloud tells now.
        """
        if account.budget is None:
            self.leave(key)
            return ""
        self.admitted(account.key, key.namespace)
        self._planned.pop(key, None)
        before, why = self._granted.pop(key, None), ""
        refused = self._refused(key, age, account, need, runs)
        if refused is None:
            self._granted[key] = _Grant(account.key, need)
            left = self._lines.leave(key)
        else:
            line, why = refused
            left = self._lines.join(key, age, [line] if can_fit(account.budget, need) else [])
        self._call_behind(left)
        self._give_back(key, before)
        return why

    def would_refuse(
        self, key: ObjectKey, age: Age, account: AccountReady, need: Commitment, *, runs: bool = True
    ) -> str:
        """What `ask` would answer, without a grant or a place in line; calls the object once a grant is possible."""
        self.admitted(account.key, key.namespace)
        refused = None if account.budget is None else self._refused(key, age, account, need, runs)
        self.leave(key)
        if refused is None:
            return ""
        self._planned[key] = _Refused(age, account, need, runs)
        return refused[1]

    def line_up(self, key: ObjectKey, age: Age, account: AccountReady) -> None:
        """Put an object that lost its grant and will ask again in line, so that no younger object overtakes it."""
        self.admitted(account.key, key.namespace)
        self._recall(account)
        self._lines.join(key, age, _lines(account.key, key.namespace))

    def leave(self, key: ObjectKey) -> None:
        """Record that the object asks for nothing: its grant is written on it by now, or came to nothing."""
        self._planned.pop(key, None)
        self._call_behind(self._lines.leave(key))
        self.written(key)

    def written(self, key: ObjectKey) -> None:
        """Record that the grant is written on the object; any part that is not becomes room for others."""
        self._give_back(key, self._granted.pop(key, None))

    def leaves_behind(self, key: ObjectKey) -> None:
        """Record that the object is about to be released, and that its resource stays and goes on costing."""
        entry, account = self.cache.get(key), self.cache.account_of(key)
        if entry is not None and account is not None:
            had, now = self._said(key), self.queue.clock()
            is_paid = had.billed == had.cents and not had.unpriced
            self._left[key] = _Left(entry.uid, account, had, now if is_paid else now + _BEGINS_SECONDS)

    def stands(self, key: ObjectKey, account: AccountReady) -> bool:
        """Whether everything granted still fits, together with what a former process may have granted to others.

        Of the object itself only the grant counts, as in `ask`: what was reserved for an earlier request may be more.
        Others count the larger of both, so that they get no room which that request may have taken.
        """
        if account.budget is None:
            return True
        grant = self._granted.get(key)
        return not any(self._beyond(key, account, self._said(key) if grant is None else grant.need))

    def reserving(self, account: AccountReady) -> tuple[str, ...]:
        """The namespaces with reservations in a shared account, which count only if it admits them."""
        is_limited = account.budget is not None and not account.key.namespace
        return tuple(self.cache.reserved(account.key)) if is_limited else ()

    def admitted(self, account: ObjectKey, namespace: str) -> None:
        """Record that the account admits the namespace, or may: reservations there count."""
        self._admitted.setdefault(account, {})[namespace] = inf

    def not_admitted(self, account: ObjectKey, namespace: str) -> None:
        """Record that the account does not admit the namespace.

        What it reserved while it was admitted counts until the organization's burn shows it.
        """
        known = self._admitted.get(account, {})
        if namespace in known:
            known[namespace] = min(known[namespace], self.queue.clock() + _BEGINS_SECONDS)

    def paid(self, account: AccountReady) -> Paid:
        """What this cluster's objects show as being paid now."""
        of_each, sums = of_namespace(account.budget), self.cache.committed(account.key)
        cents = {namespace: counted(of_each, total).billed for namespace, total in sums.items()}
        now = self.queue.clock()
        left = [key for key in self._left_in(account.key) if self._left[key].shown_from <= now]
        return Paid(cents, self._lapsed.get(account.key, Counter[str]()).copy(), left)

    def looked(self, account: AccountReady, available_cents: int | None, burn_cents: int | None, before: Paid) -> bool:
        """Record what a look at the account showed; the first object in each line checks whether that is enough.

        `before` is from before the look. Returns whether another look should follow soon: because something began to
        run since, which the burn may lack and from which it is not taken, or because objects wait for the account, and
        the burn may still contain what ended.
        """
        key, now = account.key, self.paid(account)
        lapsed = now.lapsed - before.lapsed
        self._funds[key] = account.organization_id, Funds(account.budget, available_cents, burn_cents, before.cents)
        self._lapsed[key] = lapsed
        self._doubted.discard(key)
        for left in before.left:
            self._left.pop(left, None)
        self._call_next(key)
        own = (each for each, refused in self._planned.items() if refused.account.key == key)
        self._call_planned(list(islice(own, _PLANS_AT_A_LOOK)))
        began = any(cents > before.cents.get(each, 0) - lapsed[each] for each, cents in now.cents.items())
        return began or self._lines.first(Line(key)) is not None

    def forget(self, account: ObjectKey) -> None:
        """Forget what is known of an account that is gone: accounts come and go without end."""
        self._funds.pop(account, None)
        self._lapsed.pop(account, None)
        self._admitted.pop(account, None)
        self._known.discard(account)
        self._doubted.discard(account)
        now = self.queue.clock()
        for key, left in list(self._left.items()):
            # Before its time, another account of this name may not show it yet; later, its first look does.
            if left.shown_from <= now and (left.account == account or self.cache.get(left.account) is None):
                del self._left[key]

    def is_doubted(self, account: ObjectKey) -> bool:
        """Whether an object waits only because what ended since the last look may have ended before it."""
        return account in self._doubted

    def _refused(
        self, key: ObjectKey, age: Age, account: AccountReady, need: Commitment, runs: bool
    ) -> tuple[Line, str] | None:
        """The line where the object would wait, and why; None if there is room and no older object waits for it."""
        self._recall(account)
        beyond = self._beyond(key, account, need, runs=runs)
        for line, why in zip(_lines(account.key, key.namespace), beyond, strict=True):
            if why or self._lines.is_behind(key, age, line):
                return line, why or _BEHIND
        return None

    def _waits(self, key: ObjectKey, age: Age, line: Line) -> bool:
        entry = self.cache.get(key)
        if entry is None or len(entry.body) > LARGEST:
            return False
        uses = self.cache.account_meant(key, entry)  # None while there is no default
        return uses in {line.account, None} and (entry.uid, entry.generation) == (age.uid, age.generation)

    def _said(self, key: ObjectKey) -> Commitment:
        """What the object itself shows, as far as it counts."""
        entry, account = self.cache.get(key), self.cache.account_of(key)
        if entry is None:
            return NOTHING
        counts = account is None or self._counts(account, key.namespace)
        return entry.committed if counts else entry.committed - entry.reserved

    def _has(self, key: ObjectKey) -> Commitment:
        """What the object shows or was granted, whichever is larger."""
        said, grant = self._said(key), self._granted.get(key)
        return said if grant is None else _larger(said, grant.need)

    def _give_back(self, key: ObjectKey, before: _Grant | None) -> None:
        """Call the waiting objects if the object does not use all of its grant."""
        if before is not None and not self._has(key).covers(before.need):
            self._call_next(before.account, key.namespace)

    def _beyond(self, key: ObjectKey, account: AccountReady, need: Commitment, *, runs: bool = True) -> tuple[str, str]:
        """Why the namespace and why the account lack room for the need beside all others; each empty if it fits."""
        budget, of_each = account.budget, of_namespace(account.budget)
        assert budget is not None, f"{account.key} limits nothing"
        others = self._others(key, account.key)
        own = others.get(key.namespace, NOTHING)
        in_namespace = "" if of_each is None else beyond_namespace(of_each, own, need)
        totals = (*others.values(), *self._left_behind(account.key).values())
        together = sum((counted(of_each, total) for total in totals), NOTHING)
        organization, known = self._funds.get(account.key, ("", None))
        funds = known if organization == account.organization_id else None
        lapsed = Counter(self._lapsed.get(account.key))
        if not runs:
            lapsed[key.namespace] += self._said(key).billed
        in_account = beyond_account(budget, funds, lapsed, together, need)
        if in_account and not beyond_account(budget, funds, {}, together, need):
            self._doubt(account.key)
        return in_namespace, in_account

    def _lapse(self, key: ObjectKey, account: ObjectKey, cents: int) -> None:
        """What a released object leaves behind goes on being paid, and counts by itself."""
        if not self._has_left(key):
            self._lapsed.setdefault(account, Counter())[key.namespace] += cents

    def _doubt(self, account: ObjectKey) -> None:
        """Have the account looked at again."""
        if account not in self._doubted:
            self._doubted.add(account)
            self.queue.add(account, Priority.CHANGE)

    def _others(self, key: ObjectKey, account: ObjectKey) -> dict[str, Commitment]:
        """By namespace: the commitments of all other objects, with grants that are not written yet."""
        sums = self._sums(account)
        for granted in {key, *self._unwritten(account)}:
            said = self._said(granted)
            counts = NOTHING if granted == key else self._has(granted)
            sums[granted.namespace] = sums.get(granted.namespace, NOTHING).changed(counts, said)
        return sums

    def _sums(self, account: ObjectKey) -> dict[str, Commitment]:
        """By namespace: what all objects show, as far as it counts."""
        sums = self.cache.committed(account)
        for namespace, reserved in self.cache.reserved(account).items():
            if not self._counts(account, namespace):
                sums[namespace] = sums.get(namespace, NOTHING) - reserved
        return sums

    def _counts(self, account: ObjectKey, namespace: str) -> bool:
        """Whether reservations count: anybody can write one by hand, also where a shared account admits nothing.

        What status shows counts everywhere, since it may be paid for.
        """
        until = inf if account.namespace else self._admitted.get(account, {}).get(namespace, -inf)
        return self.queue.clock() < until

    def _left_in(self, account: ObjectKey) -> list[ObjectKey]:
        """Objects of the account that are gone, and left behind what no look at the account has shown yet."""
        return [key for key, left in self._left.items() if left.account == account and self._has_left(key)]

    def _has_left(self, key: ObjectKey) -> bool:
        """Whether the operator let go of the object, and it left something behind."""
        left, entry = self._left.get(key), self.cache.get(key)
        return left is not None and (entry is None or entry.uid != left.uid or entry.let_go)

    def _left_behind(self, account: ObjectKey) -> dict[str, Commitment]:
        """By namespace: what they left behind."""
        sums: dict[str, Commitment] = {}
        for key in self._left_in(account):
            sums[key.namespace] = sums.get(key.namespace, NOTHING) + self._left[key].had
        return sums

    def _unwritten(self, account: ObjectKey) -> list[ObjectKey]:
        """Objects of the account with a grant; a vanished object asks for nothing, and leaves with its last pass."""
        return [key for key in self._granted if self.cache.account_of(key) == account]

    def _recall(self, account: AccountReady) -> None:
        """Put objects that waited under a former process back in line, so that no faster one takes their place."""
        if account.key in self._known:
            return
        self._known.add(account.key)
        for key, entry in self.cache.users(account.key):
            if entry.reason == Reason.WAITING_FOR_BUDGET and not entry.paused:
                age = Age(entry.created, entry.uid, entry.generation)
                self._lines.join(key, age, _lines(account.key, key.namespace))

    def _call_behind(self, left: set[ObjectKey]) -> None:
        """Wake the first of each line of the accounts whose lines lost an object, also one that no longer waited."""
        for account in left | self._lines.vacated():
            self._call_next(account)

    def _call_next(self, account: ObjectKey, namespace: str | None = None) -> None:
        """Wake the first of each line, or of one namespace's lines; once it has its room, it calls the next."""
        lines = self._lines.of(account) if namespace is None else _lines(account, namespace)
        for line in lines:
            if (first := self._lines.first(line)) is not None:
                self.queue.add(first, Priority.CHANGE)
        self._call_planned(list(islice(self._planned, _PLANS_AT_ONCE)))

    def _call_planned(self, plans: Iterable[ObjectKey]) -> None:
        """Wake the plans that would be granted; the others take their turn after all the rest."""
        for key in plans:
            refused = self._planned.pop(key)
            if self._refused(key, *refused) is None:
                self.queue.add(key, Priority.CHANGE)
            else:
                self._planned[key] = refused


def _lines(account: ObjectKey, namespace: str) -> tuple[Line, Line]:
    """The lines where an object may wait: for its namespace's share, then for the whole account."""
    return Line(account, namespace), Line(account)


def _larger(one: Commitment, other: Commitment) -> Commitment:
    unpriced = one.unpriced if not other.cents else 0
    return Commitment(max(one.cents, other.cents), max(one.gpus, other.gpus), one.billed, unpriced)
