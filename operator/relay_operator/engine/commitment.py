"""The hourly cost of an object, or what it may cost at any moment: in cents, and in GPUs. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from pydantic import JsonValue

from relay_operator.api.meta import CreateIntent, MalformedIntent, ObjectKey, Reservation
from relay_operator.api.workload import BILLED, BILLED_EARLY, UNBILLED
from relay_operator.engine.account_users import Reference, named_account
from relay_operator.engine.intent import is_open
from relay_operator.engine.manifests import number, part, rows

_WITHOUT_ROOM = UNBILLED - {"failed"}
"""States in which it keeps no room in a budget."""
_PAID_IN_PART = BILLED_EARLY | {"degraded"}
"""States in which some replicas may cost nothing."""


@dataclass(frozen=True, slots=True)
class Commitment:
    """The commitment of one object, or the sum over several."""

    cents: int = 0
    gpus: int = 0
    billed: int = 0
    """The part of `cents` that running resources cost."""
    unpriced: int = 0
    """Objects that cost something of unknown amount."""

    def __add__(self, other: "Commitment") -> "Commitment":
        return self.changed(other, NOTHING)

    def __sub__(self, other: "Commitment") -> "Commitment":
        return self.changed(NOTHING, other)

    def changed(self, more: "Commitment", less: "Commitment") -> "Commitment":
        """This and `more`, without `less`."""
        return Commitment(
            self.cents + more.cents - less.cents,
            self.gpus + more.gpus - less.gpus,
            self.billed + more.billed - less.billed,
            self.unpriced + more.unpriced - less.unpriced,
        )

    def covers(self, other: "Commitment") -> bool:
        """Whether the other commits to no more cents, GPUs and unpriced objects than this."""
        return self.cents >= other.cents and self.gpus >= other.gpus and self.unpriced >= other.unpriced


NOTHING: Final = Commitment()


def commitment(
    intent: CreateIntent | MalformedIntent | None, spec: Mapping[str, JsonValue], status: Mapping[str, JsonValue]
) -> tuple[Commitment, Commitment]:
    """An object's commitment, and the part of it that only the object's own intent tells.

    It is the reservation until status ends it, then the price of the resource. Former resources, which another one
    replaces or replaced, count in addition until they are gone.
    """
    present, told = _present(None, False, spec, status), NOTHING
    if intent is not None:
        reserved = intent.reserved if isinstance(intent, CreateIntent) else None
        awaited = is_open(intent, status.get("createToken"), status.get("id"), status.get("specHash"))
        shown, present = present, _present(reserved, awaited, spec, status)
        told = present - shown
    former = rows(status.get("former"))
    return present + aside((row.get("pricePerHourCents"), row.get("gpus")) for row in former), told


def aside(rows: Iterable[tuple[JsonValue, JsonValue]]) -> Commitment:
    """The sum over former resources, given as price and GPUs each; a row without GPUs costs nothing."""
    each = (
        Commitment(price, gpus, price) if isinstance(price, int) else Commitment(gpus=gpus, unpriced=1)
        for price, gpus in rows
        if isinstance(gpus, int)
    )
    return sum(each, NOTHING)


def _present(
    reserved: Reservation | None, awaited: bool, spec: Mapping[str, JsonValue], status: Mapping[str, JsonValue]
) -> Commitment:
    """`awaited`: the create of the intent is still unanswered."""
    if not status.get("id"):
        if not awaited:
            return NOTHING
        return Commitment(reserved.cents, reserved.gpus) if reserved is not None else Commitment(unpriced=1)
    waiting = reserved if reserved is not None and reserved.token != status.get("reservationToken") else None
    state, price = status.get("state"), status.get("pricePerHourCents")
    if state in _WITHOUT_ROOM:
        return NOTHING if waiting is None else Commitment(waiting.cents, waiting.gpus)
    cents = price if isinstance(price, int) else None
    gpus, billed = _gpus(spec, status), _billed(cents or 0, status)
    if waiting is not None:
        return Commitment(max(waiting.cents, cents or 0), max(waiting.gpus, gpus), billed)
    return Commitment(cents or 0, gpus, billed, unpriced=int(cents is None))


def _billed(cents: int, status: Mapping[str, JsonValue]) -> int:
    """The part of the price that is surely being paid: in some states, that of the healthy replicas.

    The cloud may bill a replica that loads, and does not say whether it does.
    """
    state, healthy = status.get("state"), status.get("readyReplicas")
    if state in _PAID_IN_PART and isinstance(healthy, int):
        replicas = _replicas(status)
        return cents * healthy // replicas if healthy < replicas else cents
    return cents if state in BILLED else 0


def _gpus(spec: Mapping[str, JsonValue], status: Mapping[str, JsonValue]) -> int:
    """The GPUs, of all replicas; a spec that only names a model asks for one."""
    asked = part(spec, "gpu").get("count", 1) if "gpu" in spec else 0
    count = status.get("gpuCount", asked)
    return number(count) * _replicas(status)


def _replicas(status: Mapping[str, JsonValue]) -> int:
    """The replicas that exist, or those that are to exist if there are more; 1 of what has none."""
    told = [number for name in ("replicas", "desiredReplicas") if isinstance(number := status.get(name), int)]
    return max(told) if told else 1


Share = tuple[Reference, Commitment]
"""What an object has in an account."""


@dataclass(slots=True)
class Commitments:
    """Sums by account and namespace. O(1) per change."""

    _naming: dict[ObjectKey, dict[str, Commitment]] = field(default_factory=dict)
    """Of objects that name an account, which need not exist."""
    _defaulting: dict[str, Commitment] = field(default_factory=dict)
    """Of objects that name none, by namespace: its default changes as accounts come and go."""

    def move(self, namespace: str, former: Share, present: Share) -> None:
        """Count what an object has now instead of what it had."""
        (before, had), (after, has) = former, present
        if before == after:
            self._change(namespace, after, has, had)
        else:
            self._change(namespace, before, NOTHING, had)
            self._change(namespace, after, has, NOTHING)

    def _change(self, namespace: str, reference: Reference, more: Commitment, less: Commitment) -> None:
        if more is less or more == less:
            return
        account = named_account(namespace, *reference) if reference[1] else None
        sums = self._defaulting if account is None else self._naming.setdefault(account, {})
        total = sums.pop(namespace, NOTHING).changed(more, less)
        if total != NOTHING:
            sums[namespace] = total
        elif account is not None and not sums:
            del self._naming[account]

    def naming(self, account: ObjectKey) -> Mapping[str, Commitment]:
        """Of objects that name the account, by namespace: the work does not depend on what others name."""
        return self._naming.get(account, {})

    def defaulting(self, namespace: str) -> Iterator[tuple[str, Commitment]]:
        """Namespace and sum of objects that name no account; an empty namespace means all."""
        one_of_them = [namespace] if namespace in self._defaulting else []
        namespaces = one_of_them if namespace else self._defaulting
        return ((one, self._defaulting[one]) for one in namespaces)
