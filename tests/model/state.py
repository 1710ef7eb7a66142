"""The parts of a small world: immutable values, so that states can be hashed and compared."""

from typing import NamedTuple, TypeVar

from relay_operator.api.meta import ObjectKey
from tests.model.asked import Answer

NOBODY = 9
"""As the sender of a request: no client waits for its answer. As the holder of a Lease: it is free."""

Frozen = tuple[tuple[str, object], ...]
"""A process's memory of an object as (field, value) pairs."""


class Resource(NamedTuple):
    """A paid resource. Its id is its position among all resources, from 1.

    `owner` and `kept` are the truth, for the invariants only: no process can read them.
    """

    alive: bool
    name: str = ""
    organization: int = 0
    image: str = ""
    replicas: int = 1
    running: bool = True
    owner: str = ""
    """The UID that it was made for or that took it over; for a batch, followed by `/round/part`."""
    kept: bool = False
    """Whether a person decided that it stays."""
    ready: bool = True
    """Whether it has come up; until then it may fail."""
    failed: bool = False

    @property
    def uid(self) -> str:
        """The UID of its owner, without round and part."""
        return uid_in(self.owner)


class Request(NamedTuple):
    """A create that was sent and that the cloud has not acted on yet; it may act at any later time, or never."""

    name: str
    organization: int
    image: str
    owner: str
    sender: int


def uid_in(owner: str) -> str:
    """Returns the UID in an owner, without round and part."""
    return owner.partition("/")[0]


class Task(NamedTuple):
    """A pass under way, and how far the real code has come."""

    key: ObjectKey
    node: int
    """Its node in the tree of passes, which asks a deed."""
    waiting: bool = False
    """Whether the deed was sent and the answer is awaited."""
    answer: Answer = None
    """The answer to a deed that is done, while it is held up; it may be lost."""


class Departed(NamedTuple):
    """A vanished object as a process knows it, and whether a ConfigMap keeps it."""

    key: ObjectKey
    body: bytes
    saved: bool


class Left(NamedTuple):
    """A leftover as JSON, the name of its ConfigMap, and whether that exists."""

    key: str
    body: str
    saved: bool


KeptT = TypeVar("KeptT", Departed, Left)


class Books(NamedTuple):
    """A process's knowledge of vanished objects and of resources in the cloud without an object."""

    departed: frozenset[Departed] = frozenset()
    leftovers: frozenset[Left] = frozenset()
    retracted: frozenset[Left] = frozenset()
    let_go: frozenset[str] = frozenset()

    def after(self, before: "Books", now: "Books") -> "Books":
        """Returns these books with the changes of a pass from `before` to `now`."""
        return Books(
            _replaced(self.departed, before.departed, now.departed),
            _replaced(self.leftovers, before.leftovers, now.leftovers),
            self.retracted - (before.retracted - now.retracted) | (now.retracted - before.retracted),
            self.let_go - (before.let_go - now.let_go) | (now.let_go - before.let_go),
        )


def _replaced(own: frozenset[KeptT], before: frozenset[KeptT], now: frozenset[KeptT]) -> frozenset[KeptT]:
    """Returns `own` with each changed item as it is in `now`."""
    touched = {one.key for one in before ^ now}
    return frozenset(one for one in own if one.key not in touched) | (now - before)


class Process(NamedTuple):
    """An operator. With `led` but without the Lease it is deposed and may not know it yet (frozen or slow)."""

    cluster: int
    led: bool = False
    memory: tuple[tuple[ObjectKey, Frozen], ...] = ()
    tasks: tuple[Task, ...] = ()
    cache: tuple[bytes | None, ...] | None = None
    """The objects as they were when its watch fell behind; None if it is up to date."""
    claims: tuple[tuple[ObjectKey, str], ...] = ()
    books: Books = Books()
    missed: tuple[tuple[ObjectKey, bytes], ...] = ()
    """Deleted objects that its watch, which is behind, has not reported yet."""
    hints: frozenset[int] = frozenset()
    """Ids from webhooks."""
    stopping: bool = False
    """Whether it has released its Lease to stop. It still acts as if it led, but has no passes unless `hasty`."""


class State(NamedTuple):
    """The whole world. `left` counts the acts that may still happen: in all, then of each act of the configuration."""

    objects: tuple[bytes | None, ...]
    organizations: tuple[int, ...]
    """For each cluster, the organization of the key that its account has now."""
    leases: tuple[int, ...]
    processes: tuple[Process, ...]
    left: tuple[int, ...]
    resources: tuple[Resource, ...] = ()
    requests: tuple[Request, ...] = ()
    config_maps: tuple[tuple[int, str, bytes], ...] = ()
    """The ConfigMaps in the operators' namespaces: cluster, name, content."""
    webhooks: frozenset[int] = frozenset()
    """Ids of created resources whose webhooks have not been delivered."""
    uids: int = 1
    tokens: int = 1
    refuses: bool = False
    """Whether the API server refuses each status with an id."""
    excused: bool = False
    """Whether something happened after which a temporary second resource is not a fault of the protocol."""


def put(items: tuple, index: int, item: object) -> tuple:  # type: ignore[type-arg]
    """Returns the tuple with one item replaced."""
    return (*items[:index], item, *items[index + 1 :])


def idle(process: Process) -> Process:
    """Returns the process as newly started."""
    return Process(process.cluster)
