"""What an object is paying for an hour, or may begin to pay at any moment: in cents, and in GPUs. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from pydantic import JsonValue

from relay_operator.api.meta import CREATE_INTENT, CreateIntent, Reservation
from relay_operator.engine.account_users import Reference
from relay_operator.engine.manifests import part

COSTS_NOTHING = frozenset({"stopped", "terminated"})
BILLED = frozenset({"running", "degraded"})
"""States in which a workload costs something at this moment (section 3)."""


@dataclass(frozen=True, slots=True)
class Commitment:
    """Of one object, or the sum over several."""

    cents: int = 0
    gpus: int = 0
    billed: int = 0
    """Of the cents, those of what runs."""
    unpriced: int = 0
    """Objects that cost something, and nothing says how much."""

    def __add__(self, other: "Commitment") -> "Commitment":
        return Commitment(
            self.cents + other.cents,
            self.gpus + other.gpus,
            self.billed + other.billed,
            self.unpriced + other.unpriced,
        )

    def __sub__(self, other: "Commitment") -> "Commitment":
        return self + Commitment(-other.cents, -other.gpus, -other.billed, -other.unpriced)

    def covers(self, other: "Commitment") -> bool:
        """Whether the other asks for no more than this."""
        return self.cents >= other.cents and self.gpus >= other.gpus and self.unpriced >= other.unpriced


NOTHING: Final = Commitment()


def commitment(
    annotations: Mapping[str, JsonValue], spec: Mapping[str, JsonValue], status: Mapping[str, JsonValue]
) -> Commitment:
    """A reservation counts until status says that it is over, and from then on what the resource is said to cost.

    What is to be replaced, or was, counts beside that as long as it is there.
    """
    former = status.get("former")
    rows = [row for row in former if isinstance(row, dict)] if isinstance(former, list) else []
    return _present(annotations, spec, status) + aside((row.get("pricePerHourCents"), row.get("gpus")) for row in rows)


def aside(rows: Iterable[tuple[JsonValue, JsonValue]]) -> Commitment:
    """Of resources that another takes the place of: the price of each, and its GPUs, which only what costs has."""
    each = (
        Commitment(price, gpus, price) if isinstance(price, int) else Commitment(gpus=gpus, unpriced=1)
        for price, gpus in rows
        if isinstance(gpus, int)
    )
    return sum(each, NOTHING)


def _present(
    annotations: Mapping[str, JsonValue], spec: Mapping[str, JsonValue], status: Mapping[str, JsonValue]
) -> Commitment:
    reserved, is_open = _reservation(annotations, status)
    if not status.get("id"):
        if not is_open:
            return NOTHING
        return Commitment(reserved.cents, reserved.gpus) if reserved is not None else Commitment(unpriced=1)
    waiting = reserved if reserved is not None and reserved.token != status.get("reservationToken") else None
    state, price = status.get("state"), status.get("pricePerHourCents")
    if state in COSTS_NOTHING:
        return NOTHING if waiting is None else Commitment(waiting.cents, waiting.gpus)
    cents = price if isinstance(price, int) else None
    gpus, billed = _gpus(spec, status), (cents or 0) if state in BILLED else 0
    if waiting is not None:
        return Commitment(max(waiting.cents, cents or 0), max(waiting.gpus, gpus), billed)
    return Commitment(cents or 0, gpus, billed, unpriced=int(cents is None))


def _reservation(
    annotations: Mapping[str, JsonValue], status: Mapping[str, JsonValue]
) -> tuple[Reservation | None, bool]:
    """What was reserved last, and whether the create of the intent has no answer yet."""
    text, ended = annotations.get(CREATE_INTENT), status.get("createToken")
    if not isinstance(text, str) or (status.get("id") and '"reserved"' not in text):
        return None, False  # parsing takes its time
    intent = CreateIntent.parse(text)
    if not isinstance(intent, CreateIntent):
        return None, intent is not None and not ended
    return intent.reserved, intent.token != ended


def _gpus(spec: Mapping[str, JsonValue], status: Mapping[str, JsonValue]) -> int:
    """Of a cluster, those of all replicas."""
    replicas, count = status.get("replicas", 1), status.get("gpuCount", part(spec, "gpu").get("count"))
    return (count if isinstance(count, int) else 0) * (replicas if isinstance(replicas, int) else 1)


@dataclass(slots=True)
class Commitments:
    """Sums by namespace and by what its objects name as their account; O(1) for each change."""

    _sums: dict[str, dict[Reference, Commitment]] = field(default_factory=dict)

    def add(self, namespace: str, reference: Reference, change: Commitment) -> None:
        """What an object there is committed to, or what it is not any more as less than nothing."""
        sums = self._sums.setdefault(namespace, {})
        total = sums.pop(reference, NOTHING) + change
        if total != NOTHING:
            sums[reference] = total
        if not sums:
            del self._sums[namespace]

    def of(self, namespace: str) -> Iterator[tuple[str, Reference, Commitment]]:
        """Namespace, what names the account, and the sum: in this namespace, or in all if it is empty."""
        namespaces = [namespace] if namespace else self._sums
        return ((one, *each) for one in namespaces for each in self._sums.get(one, {}).items())
