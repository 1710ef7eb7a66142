"""Which fault applies to a request or webhook; faults are stored with the state (interfaces.md, `POST /faults`)."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, create_model
from pydantic.alias_generators import to_camel
from sqlalchemy import Index

from relay_localcloud.faults.quotes import QUOTED
from relay_localcloud.http.bodies import ControlRequest
from relay_localcloud.kernel.rows import Rows, shown
from relay_localcloud.kernel.store import Tx

WEBHOOK = "webhook"
"""The operation that represents calls to webhook receivers."""

LONGEST_DELAY_SECONDS = 86_400


def _as_text(value: object) -> object:
    """Allow a number as a header's value, such as the seconds of a Retry-After."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


HeaderText = Annotated[str, Field(pattern=r"^[\x20-\x7e]*$"), BeforeValidator(_as_text)]
HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")]
Delay = Annotated[float, Field(ge=0, le=LONGEST_DELAY_SECONDS, allow_inf_nan=False)]


_CONFIG: Final = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True, strict=True, defer_build=True)


class Answered(BaseModel):
    """The answer to a request, which is not executed; without a body it is `{error, code}`."""

    model_config = _CONFIG

    status: Annotated[int, Field(ge=200, le=599)]
    body: JsonValue = None
    headers: dict[HeaderName, HeaderText] = Field(default_factory=dict)


_VALUES: Final[Mapping[str, Any]] = {
    # A request is executed this much later, in real time; a webhook is sent this much later on the cloud's clock.
    "delaySeconds": Delay,
    # A request is executed at once, and answered this much later, in real time.
    "answerDelaySeconds": Delay,
    # The connection is cut `before` the request is executed, or `after`, so that only the reply is lost.
    "drop": Literal["before", "after"],
    # Executed; the first n bytes of the body are sent, then the connection breaks.
    "truncateBytes": Annotated[int, Field(ge=0, le=2**31)],
    # Executed; a page of HTML replaces the body, with the same status.
    "html": Literal[True],
    # A read answers as it would have this many seconds ago on the cloud's clock.
    "staleSeconds": Annotated[float, Field(gt=0, le=LONGEST_DELAY_SECONDS, allow_inf_nan=False)],
    # Created resources are billed at this multiple of the price in the catalog.
    "priceFactor": Annotated[float, Field(ge=0, le=1000, allow_inf_nan=False)],
    # The model fails after n pieces of content of a stream; other answers are not affected.
    "cutStreamAfter": Annotated[int, Field(ge=0, le=2**31)],
    # The webhook never arrives, and is not retried.
    "lose": Literal[True],
    # The webhook is sent with n extra copies.
    "duplicate": Annotated[int, Field(ge=1, le=1000)],
    # The webhook is held back until the subscription's next one has been sent.
    "reorder": Literal[True],
}
"""All effects except `status` (`Answered`), by the field that identifies each and is its only one."""

REQUEST_EFFECTS: Final = ("status", "delaySeconds", "answerDelaySeconds", "drop", "truncateBytes", "html")
WEBHOOK_EFFECTS: Final = ("lose", "duplicate", "delaySeconds", "reorder")

READS_THE_PAST: Final = "staleSeconds"

_WITHOUT_PAST: Final = "GET /v1/orgs/{orgId}/quotas"
"""Its totals have no past (`kernel/counts.py`)."""

STREAMED: Final = frozenset({"POST /v1/chat/completions", "POST /v1/messages"})
"""The operations that can answer with a stream."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What a fault does: the field that identifies the effect, and its value, `Answered` for a `status`."""

    name: str
    value: object


class FaultCreate(ControlRequest):
    """What `POST /_localcloud/faults` takes."""

    operation: Annotated[str, Field(min_length=1, max_length=300)]
    effect: dict[str, JsonValue]
    organization_id: str | None = None
    skip: Annotated[int, Field(ge=0, le=2**31)] | None = None
    count: Annotated[int, Field(ge=1, le=2**31)] | None = None
    probability: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None = None
    seed: Annotated[int, Field(ge=-(2**53), le=2**53)] | None = None


@dataclass(frozen=True, slots=True)
class FaultRow:
    """A stored fault."""

    sequence: int
    id: str
    operation: str
    organization_id: str | None
    count: int | None
    probability: float | None  # None: always
    seed: int | None
    effect: dict[str, JsonValue]
    skip: int = 0
    seen: int = 0
    applied: int = 0


FAULTS: Final = Rows(FaultRow, "faults", Index("faults_by_operation", "operation"))


@dataclass(frozen=True)
class Fault:
    """A fault that applies to this one request or webhook."""

    id: str
    effect: Effect


def effects_of(operation: str) -> tuple[str, ...]:
    """The effects that a fault on this operation may have."""
    if operation == WEBHOOK:
        return WEBHOOK_EFFECTS
    if operation in QUOTED:
        return *REQUEST_EFFECTS, "priceFactor"
    if operation in STREAMED:
        return *REQUEST_EFFECTS, "cutStreamAfter"
    has_past = operation.startswith("GET ") and operation != _WITHOUT_PAST
    return (*REQUEST_EFFECTS, READS_THE_PAST) if has_past else REQUEST_EFFECTS


def parse_effect(operation: str, effect: Mapping[str, Any]) -> Effect:
    """Parse an effect; raises pydantic's ValidationError, or ValueError if no known field identifies it."""
    known = effects_of(operation)
    name = next((name for name in known if name in effect), None)
    if name is None:
        raise ValueError(f"effect: give one of {', '.join(known)} for the operation {operation!r}")
    if name == "status":
        return Effect(name, Answered.model_validate(effect))
    return Effect(name, getattr(_shape(name).model_validate(effect), name))


@cache
def _shape(name: str) -> type[BaseModel]:
    field: dict[str, Any] = {name: (_VALUES[name], ...)}
    return create_model(name, __config__=ConfigDict(extra="forbid", strict=True), **field)


def add(tx: Tx, fault: FaultCreate) -> dict[str, object]:
    """Store a fault; returns it as it is listed."""
    asked = {name: value for name, value in fault if value is not None}
    return _shown(FAULTS.insert(tx, id=tx.new_id("flt"), **asked))


def every(tx: Tx) -> list[dict[str, object]]:
    """The faults as the control interface lists them, oldest first."""
    return [_shown(row) for row in FAULTS.all(tx)]


def meet(tx: Tx, operation: str, organization_id: str | None) -> Fault | None:
    """The first applicable fault, oldest first; counts this occurrence as seen by every one before it."""
    for row in FAULTS.all(tx, operation=operation):
        if row.organization_id in (None, organization_id):
            applies = _applies(row)
            FAULTS.change(tx, row.id, seen=row.seen + 1, applied=row.applied + applies)
            if applies:
                return Fault(row.id, parse_effect(operation, row.effect))
    return None


def operations(tx: Tx) -> frozenset[str]:
    """The operations that have a fault."""
    return frozenset(row.operation for row in FAULTS.all(tx))


def any_reads_the_past(tx: Tx) -> bool:
    """Whether any fault needs former versions of rows."""
    return any(READS_THE_PAST in row.effect for row in FAULTS.all(tx))


def _applies(row: FaultRow) -> bool:
    if row.seen < row.skip or (row.count is not None and row.applied >= row.count):
        return False
    if row.probability is None:
        return True
    # The n-th draw of this seed, so that a run repeats exactly, also after a restart.
    seed = row.seed if row.seed is not None else row.id
    return random.Random(f"{seed}:{row.seen}").random() < row.probability  # noqa: S311 - not for secrets


def _shown(row: FaultRow) -> dict[str, object]:
    fields = ("id", "operation", "organization_id", "skip", "count", "probability", "seed", "effect", "seen", "applied")
    return shown(row, *fields)
