"""What a family of kinds tells the one pass that there is: how its objects are read, decided upon and acted upon."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

from relay_client import CloudError
from relay_kube.kube import ResourceType
from relay_operator.api.conditions import ObjectStatus
from relay_operator.api.meta import CreateIntent, ObjectKey, ObjectMeta
from relay_operator.engine.leftovers import Left
from relay_operator.engine.memory import MemoryT
from relay_operator.engine.object_writer import ObjectWriter
from relay_operator.engine.persist import PaidFor
from relay_operator.engine.queue import Priority
from relay_operator.engine.report import Report


@dataclass(frozen=True, slots=True)
class Turn:
    """One pass: over which object, when, and how urgently it was asked for."""

    key: ObjectKey
    uid: str
    now: datetime
    priority: Priority
    outdated: str = ""
    """Why nothing may be created: a CRD is older than this release."""

    @property
    def exact(self) -> bool:
        """Something changed, or will be changed: this very resource is read, not a listing shared with others."""
        return self.priority < Priority.POLL


class Object(Protocol):
    """What every object has."""

    @property
    def metadata(self) -> ObjectMeta: ...
    @property
    def status(self) -> ObjectStatus: ...


class Facts(Protocol):
    """Gathered once; what follows is decided from it alone."""

    @property
    def error(self) -> CloudError | None:
        """Why the cloud could not be looked at."""
        ...


@dataclass(frozen=True, slots=True)
class Told:
    """What a pass led to."""

    before: ObjectStatus
    after: ObjectStatus
    """The status as it was read, and as it should be."""
    report: Report | None
    """None: nothing is to be said."""
    next_attempt: datetime | None = None
    """When the next attempt is agreed."""
    due: tuple[datetime, ...] = ()
    """Moments at which the passing of time alone asks for a pass."""
    name: str = ""
    """Of what was done; empty: the action's own."""
    summary: str = ""
    """For the log; empty: the report's message."""
    once_written: Callable[[], None] | None = None
    """What may be forgotten only when status tells it."""


ObjT = TypeVar("ObjT", bound=Object)
FactsT = TypeVar("FactsT", bound=Facts)
ActionT = TypeVar("ActionT")
ResultT = TypeVar("ResultT")


class Flow(Protocol[ObjT, FactsT, ActionT, ResultT, MemoryT]):
    """How one kind's objects go through a pass; `gather`, `act` and `forget` do I/O, the others are pure."""

    @property
    def type(self) -> ResourceType: ...

    def parse(self, body: bytes) -> ObjT:
        """The object, unknown fields ignored. Raises pydantic's ValidationError."""
        ...

    def own(self, obj: ObjT) -> ObjT:
        """The object without what was recorded for another."""
        ...

    def memory(self, uid: str) -> MemoryT:
        """Of an object that was not seen before."""
        ...

    async def gather(self, turn: Turn, obj: ObjT, memory: MemoryT) -> FactsT:
        """All reading. Raises KubeError."""
        ...

    def plan(self, facts: FactsT) -> ActionT:
        """The one decision."""
        ...

    def intent(self, facts: FactsT) -> CreateIntent | None:
        """The intent that has to stand on the object, with the finalizer; None if nothing of it is in the cloud."""
        ...

    async def act(self, facts: FactsT, action: ActionT, memory: MemoryT, writer: ObjectWriter) -> ResultT:
        """At most one change in the cloud; its refusals are results. Raises KubeError."""
        ...

    def tell(self, turn: Turn, facts: FactsT, action: ActionT, result: ResultT, memory: MemoryT) -> Told:
        """What to say of it, and when to come back."""
        ...

    def paid(self, facts: FactsT, result: ResultT) -> PaidFor | None:
        """What of the object's own is in the cloud that nothing but this result tells of."""
        ...

    def leaves(self, facts: FactsT) -> tuple[Left, ...]:
        """What stays in the cloud if the object is let go now."""
        ...

    def unrecorded(self, result: ResultT, memory: MemoryT, why: str) -> ResultT:
        """What came of it instead, where status cannot tell what was paid for, and that is ended."""
        ...

    async def forget(self, key: ObjectKey, memory: MemoryT | None) -> None:
        """The object is gone."""
        ...
