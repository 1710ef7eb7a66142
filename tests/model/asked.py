"""What a pass asks of the world around it, and what it is answered: values, so that two passes can be compared."""

from typing import NamedTuple

from relay_operator.api.meta import ObjectKey

# -- looks: answered at once -----------------------------------------------------------------------------------------


class Resolve(NamedTuple):
    """The account: organization, and whether it allows adoption."""


class Observe(NamedTuple):
    """The resource of this id: `Seen`, or None where this organization has none."""

    id: str
    organization: int


class Seen(NamedTuple):
    """What the cloud says of a resource."""

    id: str
    name: str
    status: str
    replicas: int


class Find(NamedTuple):
    """The living resource of this name: `Seen`, or one of the words below."""

    name: str
    organization: int


NOT_SEEN, CANNOT_TELL = "not seen", "cannot tell"


class Living(NamedTuple):
    """All that lives in the organization, as far as the list or webhooks tell: ids and names."""

    organization: int


class Listed(NamedTuple):
    """All batches of the organization, those that are over too: `Seen`."""

    organization: int


class Billed(NamedTuple):
    """The same, as far as the breakdown of the usage tells."""

    organization: int


class Leads(NamedTuple):
    """Whether this replica leads."""


class Token(NamedTuple):
    """A number that nobody was given before."""


class Read(NamedTuple):
    """The object of this name as it is."""

    key: ObjectKey


class ReadMap(NamedTuple):
    """What the ConfigMap of this name keeps; None where there is none."""

    name: str


class Lookup(NamedTuple):
    """What the cache answers to a method that only reads."""

    method: str
    arguments: tuple[object, ...] = ()
    named: tuple[tuple[str, object], ...] = ()


class Working(NamedTuple):
    """Whether another pass of this process is over this object."""

    key: ObjectKey


class Claim(NamedTuple):
    """Take the id: the keys of those that have it already."""

    id: str
    key: ObjectKey


class Unclaim(NamedTuple):
    """Give back what was taken."""

    key: ObjectKey


Look = (
    Resolve | Observe | Find | Living | Listed | Billed | Leads | Token
    | Read | ReadMap | Lookup | Working | Claim | Unclaim
)  # fmt: skip

# -- deeds: each is a step of its own, before which anything may happen ----------------------------------------------


class Patch(NamedTuple):
    """A merge patch of the object, or of its status."""

    key: ObjectKey
    status: bool
    version: str
    patch: bytes


class Begin(NamedTuple):
    """A connection is in hand: may the first byte be written?"""


class Create(NamedTuple):
    """A paid create."""

    name: str
    organization: int
    image: str


class Terminate(NamedTuple):
    """A termination."""

    id: str
    organization: int


class Power(NamedTuple):
    """Stop or start."""

    id: str
    organization: int
    running: bool


class Scale(NamedTuple):
    """So many replicas."""

    id: str
    organization: int
    replicas: int


class Save(NamedTuple):
    """Keep something in a ConfigMap; `new`: there is none yet, else there is this version, if that is said."""

    name: str
    body: bytes
    new: bool
    version: str = ""


class Drop(NamedTuple):
    """Delete that ConfigMap; only this version of it, if that is said."""

    name: str
    version: str = ""


Sent = Create | Terminate | Power | Scale
"""To the cloud, right after `Begin`."""
Deed = Patch | Begin | Create | Terminate | Power | Scale | Save | Drop
Asked = Look | Deed


class Failed(NamedTuple):
    """An answer that is an error."""

    how: str


CONFLICT, MISSING, NO_ANSWER = Failed("conflict"), Failed("missing"), Failed("no answer")
NOT_SENT, REJECTED = Failed("not sent"), Failed("rejected")
Answer = object
"""Whatever can be compared."""
