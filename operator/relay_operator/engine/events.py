"""Reports trouble as Kubernetes Events: few, best effort, with the lowest priority.

An object without trouble gets none, so that a create costs three writes and no more.
"""

import asyncio
import logging
import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from relay_kube.errors import KubeError
from relay_kube.kube import EVENTS, JsonObject, Kube
from relay_operator.api.conditions import Condition, ConditionType, Reason
from relay_operator.api.meta import API_VERSION, ObjectKey
from relay_operator.engine import conditions

logger = logging.getLogger(__name__)

CONTROLLER = "gpurelay.dev/relay-operator"
NOTE_LIMIT = 1024
_WAITING = 256
"""Events that may wait to be written; further ones are dropped, since status reports everything anyway."""
_WAITING_EACH = 64
"""The same for one namespace, so that others find room."""
_WARNED = frozenset(
    {
        Reason.INTERRUPTED,
        Reason.DEGRADED,
        Reason.WAITING_FOR_CAPACITY,
        Reason.CREATE_OUTCOME_UNKNOWN,
        Reason.BACK_OFF,
    }
)
"""Reasons of Reconciling that people are warned of."""


@dataclass(frozen=True, slots=True)
class Note:
    """One Event."""

    type: str
    reason: str
    text: str


def noteworthy(before: Sequence[Condition], after: Sequence[Condition], *, deleting: bool) -> Note | None:
    """The Event for a trouble that is new in this status, or for the end of one; None if there is neither."""
    if (trouble := _trouble(after, deleting=deleting)) is not None:
        known = _trouble(before, deleting=deleting)
        new = known is None or known.reason != trouble.reason
        return Note("Warning", str(trouble.reason), trouble.message) if new else None
    ready = conditions.find(after, ConditionType.READY)
    if ready is not None and ready.status == "True" and _trouble(before, deleting=deleting) is not None:
        return Note("Normal", "Recovered", ready.message)
    return None


def _trouble(written: Sequence[Condition], *, deleting: bool) -> Condition | None:
    if (stalled := conditions.find(written, ConditionType.STALLED)) is not None:
        return stalled
    if (reconciling := conditions.find(written, ConditionType.RECONCILING)) is not None:
        held_up = deleting and reconciling.reason not in {Reason.DELETING, Reason.STOPPING}
        if held_up or reconciling.reason in _WARNED:
            return reconciling
    left = conditions.find(written, ConditionType.LEFTOVER_UNRECORDED)
    return left or conditions.find(written, ConditionType.OUTPUT_MAY_NOT_FIT)


@dataclass(slots=True)
class Recorder:
    """Writes Events one after another, in a task of its own."""

    kube: Kube
    instance: str
    wall_clock: Callable[[], datetime]
    _waiting: asyncio.Queue[tuple[ObjectKey, str, Note]] = field(default_factory=lambda: asyncio.Queue(_WAITING))
    _waiting_of: Counter[str] = field(default_factory=Counter)
    """How many wait, by namespace."""

    def record(self, key: ObjectKey, uid: str, note: Note) -> None:
        """Queue an Event; never waits and never fails."""
        if self._waiting.full() or self._waiting_of[key.namespace] >= _WAITING_EACH:
            logger.debug("too many Events: one of %s is dropped", key)
            return
        self._waiting.put_nowait((key, uid, note))
        self._waiting_of[key.namespace] += 1

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            key, uid, note = await self._waiting.get()
            self._waiting_of -= Counter({key.namespace: 1})
            try:
                await self.kube.create(EVENTS, key.namespace or "default", self._event(key, uid, note))
            except KubeError as error:
                logger.debug("an Event of %s could not be written: %s", key, error)

    def _event(self, key: ObjectKey, uid: str, note: Note) -> JsonObject:
        name = f"{key.name[:200].rstrip('-.')}.{secrets.token_hex(8)}"
        return {
            "metadata": {"name": name, "namespace": key.namespace or "default"},
            "eventTime": self.wall_clock().strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "reportingController": CONTROLLER,
            "reportingInstance": self.instance[:128],
            "action": "Reconcile",
            "type": note.type,
            "reason": note.reason,
            "note": note.text[:NOTE_LIMIT] or note.reason,
            "regarding": {
                "apiVersion": API_VERSION,
                "kind": key.kind,
                "namespace": key.namespace,
                "name": key.name,
                "uid": uid,
            },
        }
