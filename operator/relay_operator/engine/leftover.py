"""The record of a resource in the cloud that has no object: kept on purpose, orphaned, or created too late. Pure."""

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from relay_operator.api.meta import Model, ObjectKey, Time
from relay_operator.engine.address import address
from relay_operator.engine.endpoints import Endpoints

NAMED: Final = "named "
"""Before a name, which might be the id of something else: anybody can write a name into an intent."""


class Fate(StrEnum):
    """Why a resource has no object, and so what happens to it."""

    KEPT = "kept"  # kept by `deletionPolicy` or `abandon`: it is never ended
    ORPHAN = "orphan"  # its object is gone, or was never known: it is reported
    LATE = "late"  # the cloud acted on a create that had been given up: it is ended


class Leftover(Model):
    """The record of one such resource."""

    fate: Fate
    kind: str
    account: ObjectKey
    organization: str
    endpoint: str = ""
    """Which cloud it is in; empty if unknown, as in records of earlier releases: then every cloud may be it."""
    id: str = ""
    """Empty while only the name is known."""
    name: str = ""
    """Its name in the cloud."""
    part_of: str = ""
    """The id of its whole, if the cloud needs that to find it."""
    of: str = ""
    """Namespace and name of its object; empty if unknown."""
    uid: str = ""
    since: Time

    @property
    def by_name_alone(self) -> bool:
        """Whether it may not even exist: anybody can write an intent by hand, and let go of it."""
        return not self.id

    @property
    def address(self) -> str:
        """The address to call the cloud with."""
        return address(self.id, self.part_of)

    @property
    def namespace(self) -> str:
        """Whose it is: the namespace of its account, or of its object if the account is shared; empty if unknown."""
        return self.account.namespace or self.of.partition("/")[0]

    @property
    def config_map(self) -> str:
        """The name of its ConfigMap, the same whenever the resource is found again."""
        by_name = f"{NAMED}{self.name}" if self.endpoint else self.name
        return config_map_name(self.endpoint, self.organization, self.kind, self.id or by_name)


class Reach(NamedTuple):
    """What an account sees: its organization in its cloud. Another cloud can claim the same organization."""

    account: ObjectKey
    organization: str
    endpoints: Endpoints

    def is_in_cloud_of(self, record: Leftover) -> bool:
        """Whether the record is of this cloud, or may be."""
        return record.endpoint in {"", self.endpoints.of(record.kind)}


@dataclass(frozen=True, slots=True)
class Left:
    """What an object leaves in the cloud when its finalizer is removed."""

    fate: Fate
    id: str
    name: str
    organization: str
    endpoint: str = ""
    """Empty if unknown: then it is where the object's account is."""
    part_of: str = ""


def config_map_name(endpoint: str, organization: str, kind: str, what: str) -> str:
    """The name of a record's ConfigMap; `what` is the id, or the name if no id is known."""
    where = f"{endpoint}/{organization}" if endpoint else organization
    digest = hashlib.sha256(f"{where}/{kind}/{what}".encode()).hexdigest()
    return f"leftover-{kind.lower()}-{digest[:16]}"
