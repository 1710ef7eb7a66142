"""What the small world is made of: immutable values, so that a state can be hashed and compared."""

from typing import NamedTuple, TypeVar

from relay_operator.api.meta import ObjectKey

NOBODY = 9
"""Of a request: no client waits for its answer any more. Of a Lease: nobody holds it."""

Frozen = tuple[tuple[str, object], ...]
"""What a process remembers of an object, as values: fields of its memory, and what they hold."""


class Resource(NamedTuple):
    """A paid resource. Its id is its place among all, counted from 1.

    `owner` and `kept` are the truth, which nobody in the world can read: they are for the invariants alone.
    """

    alive: bool
    name: str = ""
    organization: int = 0
    image: str = ""
    replicas: int = 1
    running: bool = True
    owner: str = ""
    """The UID for which it was made, or that took it over; of a batch, with round and part behind it."""
    kept: bool = False
    """Somebody said that it is to stay."""
    ready: bool = True
    """It has come up; until then it may fail."""
    failed: bool = False

    @property
    def uid(self) -> str:
        """Of its owner."""
        return uid_in(self.owner)


class Request(NamedTuple):
    """A create that was sent and that the cloud has not acted on; it may do so at any later time, or never."""

    name: str
    organization: int
    image: str
    owner: str
    sender: int


def uid_in(owner: str) -> str:
    """Whose a part is."""
    return owner.partition("/")[0]


class Task(NamedTuple):
    """A pass that is under way: as far as the real code has come with it."""

    key: ObjectKey
    node: int
    """Where in the tree of passes it stands: at something that it wants to do to the world."""
    waiting: bool = False
    """It was sent, and the answer is awaited."""


class Departed(NamedTuple):
    """An object that vanished, as a process knows it."""

    key: ObjectKey
    body: bytes
    saved: bool


class Left(NamedTuple):
    """A leftover, by the name of its ConfigMap, as JSON, and whether that keeps it."""

    key: str
    body: str
    saved: bool


KeptT = TypeVar("KeptT", Departed, Left)


class Books(NamedTuple):
    """What a process knows of what has no object: vanished ones, and what lives in the cloud without one."""

    departed: frozenset[Departed] = frozenset()
    leftovers: frozenset[Left] = frozenset()
    retracted: frozenset[Left] = frozenset()
    let_go: frozenset[str] = frozenset()

    def after(self, before: "Books", now: "Books") -> "Books":
        """With what a pass changed."""
        return Books(
            _replaced(self.departed, before.departed, now.departed),
            _replaced(self.leftovers, before.leftovers, now.leftovers),
            self.retracted - (before.retracted - now.retracted) | (now.retracted - before.retracted),
            self.let_go - (before.let_go - now.let_go) | (now.let_go - before.let_go),
        )


def _replaced(own: frozenset[KeptT], before: frozenset[KeptT], now: frozenset[KeptT]) -> frozenset[KeptT]:
    """What was told last of each counts."""
    touched = {one.key for one in before ^ now}
    return frozenset(one for one in own if one.key not in touched) | (now - before)


class Process(NamedTuple):
    """An operator. `led` without the Lease: deposed, though it may not know it yet (frozen, or slow)."""

    cluster: int
    led: bool = False
    memory: tuple[tuple[ObjectKey, Frozen], ...] = ()
    tasks: tuple[Task, ...] = ()
    cache: tuple[bytes | None, ...] | None = None
    """The objects as they were when its watch fell behind; None: it is up to date."""
    claims: tuple[tuple[ObjectKey, str], ...] = ()
    books: Books = Books()
    missed: tuple[tuple[ObjectKey, bytes], ...] = ()
    """Objects that went, of which a watch that is behind has yet to tell."""
    hints: frozenset[int] = frozenset()
    """Ids that webhooks told it."""
    stopping: bool = False
    """It gave its Lease back and goes on as if it led: never, unless that rule is off."""


class State(NamedTuple):
    """Everything. `left` is what may still go wrong: in all, and of each act of the configuration."""

    objects: tuple[bytes | None, ...]
    organizations: tuple[int, ...]
    """Of each cluster's account: that of the key it has now."""
    leases: tuple[int, ...]
    processes: tuple[Process, ...]
    left: tuple[int, ...]
    resources: tuple[Resource, ...] = ()
    requests: tuple[Request, ...] = ()
    config_maps: tuple[tuple[int, str, bytes], ...] = ()
    """Of the operators' own namespaces: cluster, name, what it keeps."""
    webhooks: frozenset[int] = frozenset()
    """Ids of resources that were made, not told yet."""
    uids: int = 1
    tokens: int = 1
    excused: bool = False
    """Something happened after which a second resource for a while is no fault of the protocol."""


def put(items: tuple, index: int, item: object) -> tuple:  # type: ignore[type-arg]
    """The tuple with one item replaced."""
    return (*items[:index], item, *items[index + 1 :])


def idle(process: Process) -> Process:
    """The same process, started afresh."""
    return Process(process.cluster)
