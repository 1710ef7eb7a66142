"""What lives in the cloud without an object: kept on purpose, an orphan, or created too late.

A ConfigMap of the operator's own namespace keeps each, since backups are restored without status; whoever deletes it
lets the operator forget what it stands for.
"""

import hashlib
import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from pydantic import JsonValue, ValidationError

from relay_operator.api.meta import ANNOTATION_PREFIX, Model, ObjectKey, Time
from relay_operator.engine.kube import CONFIG_MAPS, AlreadyExists, JsonObject, Kube, KubeError
from relay_operator.engine.manifests import part

logger = logging.getLogger(__name__)

KeyT = TypeVar("KeyT")

LABEL = f"{ANNOTATION_PREFIX}leftover"
_RECORD = "resource.json"


class Fate(StrEnum):
    """Why it has no object, and so what becomes of it."""

    KEPT = "kept"  # `deletionPolicy` or `abandon` say so: it is never ended
    ORPHAN = "orphan"  # its object is gone, or was never known: it is told
    LATE = "late"  # the cloud acted on a create that had been given up: it is ended


class Leftover(Model):
    """One of them."""

    fate: Fate
    kind: str
    account: ObjectKey
    organization: str
    id: str = ""
    """Empty while it is only known by its name."""
    name: str = ""
    """The one that it has in the cloud."""
    of: str = ""
    """Namespace and name of the object; empty if nobody knows."""
    uid: str = ""
    since: Time

    @property
    def config_map(self) -> str:
        """The same for what is found another time."""
        return _config_map(self.organization, self.kind, self.id or self.name)


@dataclass(frozen=True, slots=True)
class Left:
    """What an object leaves in the cloud as its finalizer goes."""

    fate: Fate
    id: str
    name: str
    organization: str


@dataclass(slots=True)
class Leftovers:
    """All of them."""

    kube: Kube
    namespace: str
    """The operator's own."""
    _records: dict[str, Leftover] = field(default_factory=dict)
    """By the name of their ConfigMap."""
    _by_account: dict[ObjectKey, set[str]] = field(default_factory=dict)
    _late: dict[str, set[str]] = field(default_factory=dict)
    """By the UID of the object that it was created for."""
    _unsaved: set[str] = field(default_factory=set)
    _retracted: set[str] = field(default_factory=set)
    _let_go: set[str] = field(default_factory=set)
    """UIDs of objects whose finalizer the operator takes off itself."""

    def read(self, config_map: Mapping[str, JsonValue], found: set[str]) -> bool:
        """Whether the ConfigMap keeps one, which is known and among `found` from here on."""
        metadata, text = part(config_map, "metadata"), part(config_map, "data").get(_RECORD)
        if LABEL not in part(metadata, "labels") or not isinstance(text, str):
            return False
        name = str(metadata.get("name"))
        try:
            self._put(Leftover.model_validate_json(text))
        except ValidationError:
            logger.error("the ConfigMap %s cannot be read: what it stands for is left", name)  # noqa: TRY400
        self._unsaved.discard(name)
        found.add(name)
        return True

    def only(self, found: set[str]) -> None:
        """Forget what people deleted the ConfigMap of: `found` are all that there are."""
        for name in set(self._records) - found - self._unsaved:
            logger.info("the ConfigMap %s is deleted: what it stood for is forgotten", name)
            self._drop(name)

    def note(self, leftover: Leftover) -> None:
        """Known from here on, and kept by the next `save`; what is kept on purpose stays so."""
        known = self._records.get(leftover.config_map)
        if known is None or (known.fate is not Fate.KEPT and (known.fate, known.of) != (leftover.fate, leftover.of)):
            logger.warning(
                "%s %s in %s: %s", leftover.kind, leftover.id or leftover.name, leftover.account, leftover.fate
            )
            self._put(leftover)
            self._unsaved.add(leftover.config_map)

    def retract(self, uid: str) -> None:
        """What the object of this UID had is taken to its end: it is no orphan."""
        for name, record in list(self._records.items()):
            if (record.uid, record.fate) == (uid, Fate.ORPHAN):
                if name not in self._unsaved:
                    self._retracted.add(name)
                self._drop(name)

    async def save(self, needed: Collection[str] | None = None) -> None:
        """What is refused keeps nothing else from being written, and is tried again by the next call.

        Raises KubeError if one of these ConfigMaps, or any where None is told, is not as it should be.
        """
        failed: KubeError | None = None
        for name in sorted(self._retracted | self._unsaved):
            try:
                await self._save(name)
            except KubeError as error:
                logger.warning("the ConfigMap %s is not written: %s", name, error)
                if failed is None and (needed is None or name in needed):
                    failed = error
        if failed is not None:
            raise failed

    async def _save(self, name: str) -> None:
        """Others may note, retract and save meanwhile. Raises KubeError."""
        if name in self._retracted:
            await self.kube.delete(CONFIG_MAPS, self.namespace, name)
            self._retracted.discard(name)
            if name in self._records:
                self._unsaved.add(name)
        record = self._records.get(name)
        if record is None or name not in self._unsaved:
            return
        await self._write(name, record)
        now = self._records.get(name)
        if now is None:
            self._retracted.add(name)
        elif now is record:
            self._unsaved.discard(name)

    async def _write(self, name: str, record: Leftover) -> None:
        data: JsonObject = {"data": {_RECORD: record.model_dump_json()}}
        labels: JsonObject = {LABEL: str(record.fate)}
        try:
            metadata: JsonObject = {"name": name, "namespace": self.namespace, "labels": labels}
            await self.kube.create(CONFIG_MAPS, self.namespace, {"metadata": metadata, **data})
        except AlreadyExists:
            there = await self.kube.get(CONFIG_MAPS, self.namespace, name)
            known = part(there, "metadata")
            if part(known, "labels").get(LABEL) == Fate.KEPT and self.read(there, set()):
                return  # another process keeps it on purpose: so it stays
            bound: JsonObject = {"labels": labels, "resourceVersion": known.get("resourceVersion")}
            await self.kube.patch(CONFIG_MAPS, self.namespace, name, {"metadata": bound, **data})

    async def forget(self, leftover: Leftover) -> None:
        """It is gone, or an object has it. Raises KubeError."""
        await self.kube.delete(CONFIG_MAPS, self.namespace, leftover.config_map)
        self._drop(leftover.config_map)

    def of(self, account: ObjectKey) -> tuple[Leftover, ...]:
        """Those that this account has in the cloud, the oldest first."""
        own = (self._records[name] for name in self._by_account.get(account, ()))
        return tuple(sorted(own, key=lambda record: (record.since, record.config_map)))

    def late(self, uid: str) -> tuple[Leftover, ...]:
        """What was created too late for the object of this UID, and is not gone so far."""
        return tuple(self._records[name] for name in sorted(self._late.get(uid, ())))

    def counts(self) -> Counter[Fate]:
        """How many there are of each fate."""
        return Counter(record.fate for record in self._records.values())

    def by_name(self, organization: str, kind: str, name: str) -> Leftover | None:
        """The one that is only known by this name."""
        record = self._records.get(_config_map(organization, kind, name))
        return record if record is not None and not record.id else None

    def move(self, organization: str, account: ObjectKey, is_there: Callable[[ObjectKey], bool]) -> None:
        """What an account of this organization left that is gone itself is another's to look after."""
        for gone in [other for other in self._by_account if not is_there(other)]:
            for record in self.of(gone):
                if record.organization == organization:
                    self._put(record.model_copy(update={"account": account}))
                    self._unsaved.add(record.config_map)

    def known(self, organization: str, kind: str, cloud_id: str) -> bool:
        """Whether there is a record of this id."""
        record = self._records.get(_config_map(organization, kind, cloud_id))
        return record is not None and record.id == cloud_id

    def kept(self, organization: str, cloud_id: str, name: str) -> bool:
        """Whether it stays on purpose, whatever else names it."""
        return any(
            record.fate is Fate.KEPT
            and record.organization == organization
            and ((record.id == cloud_id and cloud_id != "") or (record.name == name and name != ""))
            for record in self._records.values()
        )

    def _put(self, record: Leftover) -> None:
        name = record.config_map
        self._drop(name)
        self._records[name] = record
        self._by_account.setdefault(record.account, set()).add(name)
        if record.fate is Fate.LATE:
            self._late.setdefault(record.uid, set()).add(name)

    def _drop(self, name: str) -> None:
        record = self._records.pop(name, None)
        self._unsaved.discard(name)
        if record is not None:
            _remove(self._by_account, record.account, name)
            _remove(self._late, record.uid, name)

    def lets_go(self, uid: str) -> None:
        """The operator takes the finalizer of this object off."""
        self._let_go.add(uid)

    def was_let_go(self, uid: str) -> bool:
        """Whether it did, asked once: the object is gone."""
        if uid in self._let_go:
            self._let_go.discard(uid)
            return True
        return False


def _config_map(organization: str, kind: str, what: str) -> str:
    """`what` is the id, or the name where no id is known."""
    digest = hashlib.sha256(f"{organization}/{kind}/{what}".encode()).hexdigest()
    return f"leftover-{kind.lower()}-{digest[:16]}"


def _remove(index: dict[KeyT, set[str]], key: KeyT, name: str) -> None:
    names = index.get(key, set())
    names.discard(name)
    if not names:
        index.pop(key, None)
