"""Whose a resource in the cloud is: what intents and statuses record, and what names prove. Pure."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from itertools import pairwise
from typing import Protocol, TypeVar

from pydantic import JsonValue

from relay_operator.api.meta import (
    ADOPT_ID,
    CREATE_INTENT,
    CreateIntent,
    Identity,
    MalformedIntent,
    ObjectKey,
    ObjectMeta,
)
from relay_operator.engine.intent import UID_PART, cloud_name, uid_part

_INSTALLATION = 5
_ATTEMPT = re.compile(r"-(\d{1,6})$")
_UID = re.compile(rf"[0-9a-f]{{{UID_PART}}}")
_LAST_WORDS = 3
"""Words at the end of a generated name: UID, installation and attempt; the last two may be missing."""


@dataclass(slots=True)
class Installation:
    """The name of this operator's cluster; empty until the cluster was read."""

    name: str = ""


class Whose(Enum):
    """For which object something was recorded."""

    OWN = auto()
    RESTORED = auto()  # same name, other UID: a backup was restored
    FOREIGN = auto()  # a copy, or restored from another installation
    ELSEWHERE = auto()  # this very object, under another installation: the setting changed, or etcd was copied


class RecordedElsewhereError(Exception):
    """This very object's resource is recorded by another installation; the message says what to do."""

    def __init__(self, recorded: str, installation: str) -> None:
        super().__init__(
            f"what the object has in the cloud was recorded by the installation {recorded}, and this operator is "
            f"{installation}: set RELAY_INSTALLATION={recorded}; if another cluster has this object too, annotate "
            "gpurelay.dev/abandon=true, delete it, and create it again"
        )


class Recorded(Protocol):
    """What a status records about its resource."""

    @property
    def id(self) -> str | None: ...
    @property
    def cloud_name(self) -> str | None: ...
    @property
    def identity(self) -> Identity | None: ...


class Recording(Protocol):
    """An object whose status may record a resource."""

    @property
    def metadata(self) -> ObjectMeta: ...
    @property
    def status(self) -> Recorded: ...


ObjT = TypeVar("ObjT", bound=Recording)


def installation_of(cluster: str) -> str:
    """Five characters of a hash of the UID of the namespace kube-system, which a cluster keeps for life."""
    return hashlib.sha256(cluster.encode()).hexdigest()[:_INSTALLATION]


def identity_of(metadata: ObjectMeta, installation: str, organization: str, endpoint: str) -> Identity:
    """The identity that is recorded with everything created for this object."""
    return Identity(
        installation=installation,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        organization=organization,
        endpoint=endpoint,
    )


def located(made_for: Identity, now: Identity) -> Identity:
    """The identity, in the organization and the cloud of `now`."""
    return made_for.model_copy(update={"organization": now.organization, "endpoint": now.endpoint})


def place_of(made_for: Identity | None) -> tuple[str, str]:
    """The organization and the endpoint that something was created in; empty if unknown."""
    return (made_for.organization, made_for.endpoint) if made_for is not None else ("", "")


def whose(recorded: Identity, metadata: ObjectMeta, installation: str) -> Whose:
    """For which object the identity was recorded: this one, a namesake that was restored, or another."""
    return _whose(recorded, (metadata.namespace, metadata.name), metadata.uid, installation)


def _whose(recorded: Identity, name: tuple[JsonValue, JsonValue], uid: JsonValue, installation: str) -> Whose:
    if (recorded.namespace, recorded.name) != name:
        return Whose.FOREIGN
    same = recorded.uid == uid
    if recorded.installation != installation:
        return Whose.ELSEWHERE if same else Whose.FOREIGN
    return Whose.OWN if same else Whose.RESTORED


def whose_status(status: Recorded, metadata: ObjectMeta, installation: str) -> Whose:
    """Whose the recorded resource is; if there is no identity (first release), the UID part of its name proves it."""
    if status.identity is not None:
        return whose(status.identity, metadata, installation)
    name, adopt_id = status.cloud_name or "", metadata.annotations.get(ADOPT_ID)
    if not status.id or _may_be_of(metadata.uid, name, adopted=adopt_id == status.id):
        return Whose.OWN
    restored = any(gave(metadata, uid, installation, name) for uid in uids_in(name))
    return Whose.RESTORED if restored else Whose.FOREIGN


def whose_intent(intent: CreateIntent, metadata: ObjectMeta, installation: str) -> Whose:
    """Whose the intent is; one without an identity (first release) counts as the object's own."""
    return Whose.OWN if intent.identity is None else whose(intent.identity, metadata, installation)


def is_foreign(
    intent: CreateIntent | MalformedIntent | None, metadata: Mapping[str, JsonValue], installation: str
) -> bool:
    """Whether the intent of an object, given as JSON, is another's: `own` drops it."""
    if not isinstance(intent, CreateIntent) or intent.identity is None:
        return False
    name = metadata.get("namespace"), metadata.get("name")
    return _whose(intent.identity, name, metadata.get("uid"), installation) is Whose.FOREIGN


def own(obj: ObjT, installation: str) -> ObjT:
    """The object without what its status and its intent record for another: a copy has nothing in the cloud.

    Raises RecordedElsewhereError.
    """
    metadata, changed = obj.metadata, dict[str, object]()
    intent = CreateIntent.parse(metadata.annotations.get(CREATE_INTENT))
    recorded = (obj.status.identity, intent.identity if isinstance(intent, CreateIntent) else None)
    for each in filter(None, recorded):
        if whose(each, metadata, installation) is Whose.ELSEWHERE:
            raise RecordedElsewhereError(each.installation, installation)
    if whose_status(obj.status, metadata, installation) is Whose.FOREIGN:
        changed["status"] = type(obj.status)()
    if isinstance(intent, CreateIntent) and whose_intent(intent, metadata, installation) is Whose.FOREIGN:
        rest = {name: text for name, text in metadata.annotations.items() if name != CREATE_INTENT}
        changed["metadata"] = metadata.model_copy(update={"annotations": rest})
    return obj.model_copy(update=changed) if changed else obj  # type: ignore[attr-defined]


def uids_in(name: str) -> tuple[str, ...]:
    """The words of a name that may be a UID part; none if people gave the name."""
    return tuple(word for word in name.split("-")[-_LAST_WORDS:] if _UID.fullmatch(word))


def gave(metadata: ObjectMeta | ObjectKey, uid: str, installation: str, name: str) -> bool:
    """Whether the object with this UID gives this name to an attempt."""
    return attempt_of(metadata, uid, installation, name) > 0


def attempt_of(metadata: ObjectMeta | ObjectKey, uid: str, installation: str, name: str) -> int:
    """The attempt to which the object with this UID gives this name; 0 if to none.

    The first release named no installation.
    """
    last = _ATTEMPT.search(name)
    attempts = (1, int(last[1])) if last is not None else (1,)
    given = (
        attempt
        for where in (installation, "")
        for attempt in attempts
        if name == cloud_name(metadata.namespace, metadata.name, uid, where, attempt)
    )
    return next(given, 0)


def of_here(name: str, installation: str) -> bool:
    """Whether an object of this installation gave the name; the object may be gone."""
    words = name.split("-")[-_LAST_WORDS:]
    return any(_UID.fullmatch(uid) and where == installation for uid, where in pairwise(words))


def is_recorded_for(raw_status: Mapping[str, JsonValue], uid: str, adopt_id: str) -> bool:
    """Whether a status, as JSON, is about the object with this UID, which has this `adopt-id`."""
    identity = raw_status.get("identity")
    if isinstance(identity, dict):
        return identity.get("uid") == uid
    return _may_be_of(uid, str(raw_status.get("cloudName") or ""), adopted=adopt_id == raw_status.get("id"))


def _may_be_of(uid: str, name: str, *, adopted: bool) -> bool:
    """Whether a record of the first release may be this object's: it was adopted, or its name has no other UID."""
    given = uids_in(name)
    return adopted or not given or uid_part(uid) in given
