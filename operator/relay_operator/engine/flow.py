"""The contract between the one pass and a family of kinds: how objects are read, decided on and acted on."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

from relay_client import CloudError
from relay_kube.kube import ResourceType
from relay_operator.api.conditions import ObjectStatus
from relay_operator.api.meta import CreateIntent, ObjectKey, ObjectMeta
from relay_operator.engine.leftover import Left
from relay_operator.engine.memory import MemoryT
from relay_operator.engine.object_writer import ObjectWriter
from relay_operator.engine.persist import PaidFor
from relay_operator.engine.queue import Priority
from relay_operator.engine.report import Told


@dataclass(frozen=True, slots=True)
class Turn:
    """One pass: its object, its time, and its priority."""

    key: ObjectKey
    uid: str
    now: datetime
    priority: Priority
    outdated: str = ""
    """Why nothing may be created, since a CRD is older than this release; empty if none is."""

    @property
    def exact(self) -> bool:
        """Whether to read this very resource, not a shared list: something changed, or will be changed."""
        return self.priority < Priority.POLL


class Object(Protocol):
    """What every object has."""

    @property
    def metadata(self) -> ObjectMeta: ...
    @property
    def status(self) -> ObjectStatus: ...


class Facts(Protocol):
    """What a pass gathered; everything after is decided from it alone."""

    @property
    def error(self) -> CloudError | None:
        """Why the cloud could not be read; None if it could."""


ObjT = TypeVar("ObjT", bound=Object)
FactsT = TypeVar("FactsT", bound=Facts)
ActionT = TypeVar("ActionT")
ResultT = TypeVar("ResultT")


class Flow(Protocol[ObjT, FactsT, ActionT, ResultT, MemoryT]):
    """How the objects of one kind go through a pass; `gather`, `act` and `forget` do I/O, the others none.

    What has a default is for objects that create and pay for nothing.
    """

    @property
    def type(self) -> ResourceType: ...

    def parse(self, body: bytes) -> ObjT:
        """The object; unknown fields are ignored. Raises pydantic's ValidationError."""

    def own(self, obj: ObjT) -> ObjT:
        """The object without what it records for another object."""
        return obj

    def memory(self, uid: str) -> MemoryT:
        """A new memory, for an object that was not seen before."""

    async def gather(self, turn: Turn, obj: ObjT, memory: MemoryT) -> FactsT:
        """Reads everything that the decision needs. Raises KubeError."""

    def plan(self, facts: FactsT) -> ActionT:
        """The one decision."""

    def intent(self, facts: FactsT) -> CreateIntent | None:
        """The intent that must be on the object, with the finalizer; None if it has nothing in the cloud."""
        return None

    async def act(self, facts: FactsT, action: ActionT, memory: MemoryT, writer: ObjectWriter) -> ResultT:
        """Makes at most one change in the cloud; a refusal is a result. Raises KubeError."""

    def tell(self, turn: Turn, facts: FactsT, action: ActionT, result: ResultT, memory: MemoryT) -> Told:
        """What to report, and when to come back."""

    def paid(self, facts: FactsT, result: ResultT) -> PaidFor | None:
        """The object's own resource that only this result knows; None if there is none, or status records it."""
        return None

    def leaves(self, facts: FactsT) -> tuple[Left, ...]:
        """What stays in the cloud if the object is released now."""
        return ()

    def unrecorded(self, result: ResultT, memory: MemoryT, why: str) -> ResultT:
        """The result to report if status can never record what was paid for, which is ended then; `why` says so."""
        return result

    async def forget(self, key: ObjectKey, memory: MemoryT | None) -> None:
        """Forgets an object that is gone."""
