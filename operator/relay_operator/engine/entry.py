"""One object as the watch last reported it: compact JSON, and the values that are needed without parsing it."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import orjson
from pydantic import JsonValue

from relay_kube.nesting import encoded
from relay_operator.api.conditions import ConditionType, Reason
from relay_operator.api.meta import (
    ADOPT_ID,
    ANNOTATION_PREFIX,
    API_KEY_SECRET,
    COST_CENTER,
    CREATE_INTENT,
    PLAN_ONLY,
    CreateIntent,
    MalformedIntent,
    ObjectKey,
    paused,
)
from relay_operator.api.reasons import TYPES, Polarity
from relay_operator.engine import references
from relay_operator.engine.account_users import Reference
from relay_operator.engine.commitment import NOTHING, Commitment, commitment
from relay_operator.engine.figures import Figures, figures_of
from relay_operator.engine.identity import is_foreign, is_recorded_for
from relay_operator.engine.intent import aside, is_open
from relay_operator.engine.manifests import held, number, part, rows
from relay_operator.engine.ownership import Owned, owned

LARGEST = 512 * 1024
"""The largest object, in bytes, for which anything is created: etcd takes three times as much, and status grows."""
_READY, _UNKNOWN = ConditionType.READY.value, ConditionType.CREATE_OUTCOME_UNKNOWN.value
_STALLED, _FAILED = ConditionType.STALLED.value, ConditionType.FAILED.value
_BAD = frozenset(
    [(kind.value, "True") for kind, doc in TYPES.items() if doc.polarity is Polarity.NEGATIVE]
    + [(kind.value, "False") for kind, doc in TYPES.items() if doc.polarity is Polarity.POSITIVE]
) - {(_READY, "False")}
"""Type and status of conditions that report trouble, except `Ready` False, which every new object has."""
_NO_URLS = ("", "")
_OURS = frozenset({CREATE_INTENT, API_KEY_SECRET})
_DROPPED_ANNOTATIONS = frozenset({"kubectl.kubernetes.io/last-applied-configuration"})


class Entry(NamedTuple):
    """One object: its JSON, and the values that are needed without parsing it.

    People can make an object large: where many are looked through, none is parsed.
    """

    body: bytes
    status_at: int
    """Where its status begins in `body`, which ends with it; 0 if it has none."""
    uid: str
    created: str
    """RFC 3339; empty if unknown."""
    version: int
    generation: int
    deleting: bool
    finalizer: bool
    """Whether our finalizer is on it."""
    asked: tuple[tuple[str, str], ...]
    """Annotations that people set and the operator obeys, sorted."""
    cloud_id: str
    aside: tuple[str, ...]
    """Cloud ids of former resources, which are the object's until they are gone."""
    endpoint: str
    """Which cloud these are in, as status records it; empty if it does not."""
    urls: tuple[str, str]
    """The URLs that an account itself names for the management and the inference API; empty if it names none."""
    token: str
    """The token of the create whose result status records."""
    sent: CreateIntent | None
    """Its own open intent; None if it has none that can be read, or if status records a resource and its account."""
    attempted: bool
    """Whether an intent is present, open or closed: the object has, or may have, something in the cloud."""
    searching: bool
    """Whether a create of the object or of a part has no known result, so that it is searched for."""
    ready: bool
    """Whether it is Ready, and its status is about the current spec."""
    settled: bool
    """Whether it is ready, and nothing is scheduled."""
    reason: str
    """The reason of the Ready condition."""
    unknown: bool
    """Whether a person has to find out what became of a create."""
    troubles: tuple[str, ...]
    """Types of the conditions that report trouble."""
    doomed: bool
    """Whether status has the time at which the cloud deletes the resource."""
    committed: Commitment
    """What it costs, or may cost; counted for kinds with an hourly price."""
    reserved: Commitment
    """The part of that which only its intent says."""
    cost_center: str
    """Who pays for it."""
    figures: Figures
    """What it adds to the sums in metrics."""
    account: Reference
    """The account that was used, or would be."""
    over: bool
    """Whether a batch is finished, with nothing left to do in the cloud."""
    owned: Owned | None
    """What is known of the object that controls it, and for that one; None if there is none."""
    named: tuple[ObjectKey, ...] = ()
    """Objects of ours that its spec refers to."""
    held: tuple[ObjectKey, ...] = ()
    """Objects whose resources its own resource uses, or may use."""

    @property
    def let_go(self) -> bool:
        """Whether only others' finalizers keep it: what it had has ended, or is the account's to tell."""
        return self.deleting and not self.finalizer

    @property
    def paused(self) -> bool:
        """Whether people hold back every change."""
        return paused(dict(self.asked))

    @property
    def spared(self) -> bool:
        """Whether nothing of it may be ended: it is paused, or plan-only."""
        return self.paused or dict(self.asked).get(PLAN_ONLY) == "true"

    def says(self, cloud_id: str) -> bool:
        """Whether the object asks to adopt this id, or its intent or status names it.

        Conditions do not count, since they may report what belongs to others. Neither does `adopt-id` on an object that
        already has a resource: it adopts no other.
        """
        adopted = dict(self.asked).get(ADOPT_ID) if not self.cloud_id else None
        if cloud_id in {adopted, self.sent.name if self.sent is not None else None}:
            return True
        if not self.status_at or self.body.find(b'"%s"' % cloud_id.encode(), self.status_at) < 0:
            return False  # parsing is slow, and hardly ever finds it
        return cloud_id in _texts({**self.status(), "conditions": None})

    def status(self) -> Mapping[str, JsonValue]:
        """The status, parsed without the rest; empty if there is none."""
        return part(orjson.loads(memoryview(self.body)[self.status_at : -1])) if self.status_at else {}


def _texts(value: JsonValue) -> Iterator[str]:
    """Yields all texts in a value, without the names of fields."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each)


def unchanged(fields: Callable[[Entry], object], before: Entry | None, after: Entry | None) -> bool:
    """Whether the object was and is there, with the same fields; most changes touch few of them."""
    return before is not None and after is not None and fields(before) == fields(after)


def others_wrote(before: Entry, after: Entry) -> bool:
    """Whether people recreated, changed, deleted or annotated the object between the two."""
    return (
        before.uid != after.uid
        or before.generation != after.generation
        or before.deleting != after.deleting
        or before.asked != after.asked
    )


def needs_work(before: Entry | None, after: Entry) -> bool:
    """Whether an event needs a reconcile; the operator's own writes do not."""
    return (
        before is None
        or others_wrote(before, after)
        or before.finalizer > after.finalizer
        or before.attempted > after.attempted
        or (before.cloud_id != "" and after.cloud_id == "")
        or len(before.body) > LARGEST >= len(after.body)
    )


def entry_of(raw: Mapping[str, JsonValue], installation: str) -> Entry:
    """The entry of an object given as JSON; malformed values count as absent, and so does another object's intent."""
    metadata = part(raw, "metadata")
    annotations = part(metadata, "annotations")
    spec, status = part(raw, "spec"), part(raw, "status")
    intent = _own_intent(metadata, annotations, status, installation)
    sent = intent if is_open(intent, status.get("createToken"), status.get("id"), status.get("specHash")) else None
    account = part(status, "account") or _sent_with(sent) or part(spec, "accountRef")
    conditions = rows(status.get("conditions"))
    told = {str(one.get("type")): one for one in reversed(conditions)}
    readiness = told.get(_READY, {})
    ready = readiness.get("status") == "True" and status.get("observedGeneration") == metadata.get("generation")
    uid = str(metadata.get("uid", ""))
    searching = (not status.get("id") and sent is not None) or _lacks_a_batch(status)
    named = references.named(metadata, spec)
    recorded = status if is_recorded_for(status, uid, str(annotations.get(ADOPT_ID) or "")) else {}
    deleting, finalizer, figures = "deletionTimestamp" in metadata, held(metadata), figures_of(status)
    committed, reserved = commitment(intent, spec, status)
    given = (*(named if searching else references.held(metadata, status)), *references.held_aside(metadata, status))
    if deleting and not finalizer:  # its status is the last one, and old
        committed, reserved, given, figures = NOTHING, NOTHING, (), replace(figures, gpus=0)
    body, status_at = _compact(raw, metadata, annotations)
    return Entry(
        body=body,
        status_at=status_at,
        uid=uid,
        created=str(metadata.get("creationTimestamp") or ""),
        version=comparable(metadata.get("resourceVersion")),
        generation=number(metadata.get("generation")),
        deleting=deleting,
        finalizer=finalizer,
        asked=_asked(annotations),
        cloud_id=str(recorded.get("id") or ""),
        aside=tuple(cloud_id for cloud_id, _ in aside(recorded) if cloud_id),
        endpoint=sys.intern(str(part(recorded, "identity").get("endpoint") or "")),
        urls=_urls(spec) if "apiKeySecretRef" in spec else _NO_URLS,
        token=str(recorded.get("createToken") or ""),
        sent=sent if isinstance(sent, CreateIntent) else None,
        attempted=CREATE_INTENT in annotations,
        searching=searching,
        ready=ready,
        settled=ready and "nextScheduleTime" not in status,
        reason=str(readiness.get("reason") or ""),
        unknown=told.get(_UNKNOWN, {}).get("reason") == Reason.CREATE_OUTCOME_UNKNOWN,
        troubles=_troubles(conditions),
        doomed="deletionDeadline" in status,
        committed=committed,
        reserved=reserved,
        cost_center=str(part(metadata, "labels").get(COST_CENTER) or ""),
        figures=figures,
        account=(str(account.get("kind") or ""), str(account.get("name") or "")),
        over=status.get("cleared") is True,
        owned=owned(metadata, status),
        named=named,
        held=given,
    )


def _compact(
    raw: Mapping[str, JsonValue], metadata: Mapping[str, JsonValue], annotations: Mapping[str, JsonValue]
) -> tuple[bytes, int]:
    """The object's JSON, with its status last, and where that begins."""
    kept = {name: value for name, value in metadata.items() if name != "managedFields"}
    kept["annotations"] = {name: value for name, value in annotations.items() if name not in _DROPPED_ANNOTATIONS}
    rest = {name: value for name, value in raw.items() if name != "status"}
    head = encoded({**rest, "metadata": kept})
    # Copied, since orjson returns a slice of a larger buffer: kept uncopied, it would waste twice its own size.
    if "status" not in raw:
        return memoryview(head).tobytes(), 0
    before = head[:-1] + b',"status":'
    return b"".join((before, encoded(raw["status"]), b"}")), len(before)


def _own_intent(
    metadata: Mapping[str, JsonValue],
    annotations: Mapping[str, JsonValue],
    status: Mapping[str, JsonValue],
    installation: str,
) -> CreateIntent | MalformedIntent | None:
    """The object's own intent, unless status tells all that the cache keeps of it; None if there is none."""
    text = annotations.get(CREATE_INTENT)
    if not isinstance(text, str) or (status.get("id") and status.get("account") and '"reserved"' not in text):
        return None  # parsing is slow
    intent = CreateIntent.parse(text)
    return None if is_foreign(intent, metadata, installation) else intent


def _lacks_a_batch(status: Mapping[str, JsonValue]) -> bool:
    return any("sentAt" in row and "batchId" not in row for row in rows(status.get("parts")))


def _troubles(conditions: Sequence[Mapping[str, JsonValue]]) -> tuple[str, ...]:
    """Types of the conditions that report trouble; what has failed for good waits for nobody, though it is Stalled."""
    told = tuple([str(one.get("type")) for one in conditions if (one.get("type"), one.get("status")) in _BAD])
    return tuple([each for each in told if each != _STALLED]) if _FAILED in told else told


def _sent_with(intent: CreateIntent | MalformedIntent | None) -> Mapping[str, JsonValue]:
    """The account that the open intent names; empty if there is none."""
    if not isinstance(intent, CreateIntent) or not intent.account:
        return {}
    kind, name = intent.account_parts
    return {"kind": kind, "name": name}


def _asked(annotations: Mapping[str, JsonValue]) -> tuple[tuple[str, str], ...]:
    ours = [name for name in annotations if name.startswith(ANNOTATION_PREFIX) and name not in _OURS]
    return tuple([(name, str(annotations[name])) for name in sorted(ours)]) if ours else ()


def _urls(spec: Mapping[str, JsonValue]) -> tuple[str, str]:
    return str(spec.get("baseUrl") or ""), str(spec.get("inferenceUrl") or "")


def uid_of(raw: Mapping[str, JsonValue]) -> str:
    return str(part(raw, "metadata").get("uid", ""))


def version_of(raw: Mapping[str, JsonValue]) -> int:
    """The object's resource version as a comparable integer, or 0."""
    metadata = raw.get("metadata")
    return comparable(metadata.get("resourceVersion")) if isinstance(metadata, dict) else 0


def comparable(value: JsonValue) -> int:
    """A resource version as an integer (Kubernetes 1.35 and later; etcd revisions before), or 0."""
    return int(value) if isinstance(value, str) and value.isdigit() else 0
