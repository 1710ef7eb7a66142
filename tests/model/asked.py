"""The questions of a pass to its surroundings and the answers: values, so that passes can be compared."""

from typing import NamedTuple

from relay_operator.api.meta import ObjectKey

# -- looks: answered at once -----------------------------------------------------------------------------------------


class Resolve(NamedTuple):
    """Asks for the account: organization, and whether it allows adoption."""


class Observe(NamedTuple):
    """Asks for the resource with this id: `Seen`, or None if the organization has none."""

    id: str
    organization: int


class Seen(NamedTuple):
    """A resource as the cloud reports it."""

    id: str
    name: str
    status: str
    replicas: int


class Find(NamedTuple):
    """Asks for the living resource with this name: `Seen`, `NOT_SEEN` or `CANNOT_TELL`."""

    name: str
    organization: int


NOT_SEEN, CANNOT_TELL = "not seen", "cannot tell"


class Living(NamedTuple):
    """Asks for ids and names of living resources in the organization, from the list or from webhooks."""

    organization: int


class Listed(NamedTuple):
    """Asks for all batches of the organization, including ended ones: a tuple of `Seen`."""

    organization: int


class Billed(NamedTuple):
    """Asks for ids and names of living resources in the breakdown of the usage."""

    organization: int


class Leads(NamedTuple):
    """Asks whether this replica leads."""


class Token(NamedTuple):
    """Asks for an unused number."""


class Read(NamedTuple):
    """Asks the API server for the object; the answer is its text or `MISSING`."""

    key: ObjectKey


class ReadMap(NamedTuple):
    """Asks for the content of a ConfigMap; None if it does not exist."""

    name: str


class Lookup(NamedTuple):
    """Calls a method of the cache that only reads."""

    method: str
    arguments: tuple[object, ...] = ()
    named: tuple[tuple[str, object], ...] = ()


class Working(NamedTuple):
    """Asks whether a pass of this process over the object is under way."""

    key: ObjectKey


class Claim(NamedTuple):
    """Claims the id for the object unless others have it; the answer is the keys of these."""

    id: str
    key: ObjectKey


class Unclaim(NamedTuple):
    """Gives up the object's claim."""

    key: ObjectKey


Look = (
    Resolve | Observe | Find | Living | Listed | Billed | Leads | Token
    | Read | ReadMap | Lookup | Working | Claim | Unclaim
)  # fmt: skip

# -- deeds: each is a step of its own, before which anything may happen ----------------------------------------------


class Patch(NamedTuple):
    """Sends a merge patch of the object or of its status; an empty version fits any."""

    key: ObjectKey
    status: bool
    version: str
    patch: bytes


class Begin(NamedTuple):
    """Asks, with a connection in hand, whether the first byte may be written."""


class Create(NamedTuple):
    """Creates a paid resource."""

    name: str
    organization: int
    image: str


class Terminate(NamedTuple):
    """Terminates a resource, or cancels a batch."""

    id: str
    organization: int


class Power(NamedTuple):
    """Stops or starts a resource."""

    id: str
    organization: int
    running: bool


class Scale(NamedTuple):
    """Scales a resource."""

    id: str
    organization: int
    replicas: int


class Save(NamedTuple):
    """Creates a ConfigMap (`new`), or replaces one; an empty version fits any."""

    name: str
    body: bytes
    new: bool
    version: str = ""


class Drop(NamedTuple):
    """Deletes a ConfigMap; an empty version fits any."""

    name: str
    version: str = ""


Sent = Create | Terminate | Power | Scale
"""Deeds that are sent to the cloud, each right after `Begin`."""
Deed = Patch | Begin | Create | Terminate | Power | Scale | Save | Drop
Asked = Look | Deed


class Failed(NamedTuple):
    """An error as an answer."""

    how: str


CONFLICT, MISSING, NO_ANSWER = Failed("conflict"), Failed("missing"), Failed("no answer")
NOT_SENT, REJECTED, REFUSED = Failed("not sent"), Failed("rejected"), Failed("refused")
Answer = object
"""Any hashable value."""
