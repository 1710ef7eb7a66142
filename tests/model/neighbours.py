"""The neighbours of the real code, with their real interfaces: each call is a question to the script of the pass."""

from collections.abc import AsyncIterator, Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import orjson
from pydantic import JsonValue

from relay_client import Cloud, CloudError, CloudUnavailable, NotFound, Operation, Outcome, operations
from relay_client.errors import BadRequest
from relay_client.list_room import ListRoom
from relay_kube import errors as kube
from relay_kube.kube import CONFIG_MAPS, JsonObject, ResourceType
from relay_operator.api.meta import ObjectKey
from relay_operator.engine.account import AccountReady
from relay_operator.engine.endpoints import NOWHERE, Endpoints
from relay_operator.engine.entry import Entry, entry_of
from relay_operator.engine.identity import Installation
from relay_operator.engine.intent import cloud_name
from relay_operator.engine.leftover import Fate, Leftover
from relay_operator.engine.unclaimed_ids import UnclaimedIds
from relay_operator.flows.batch.names import TAG
from relay_operator.flows.managed.resource import CannotTell, Found, Look, NotSeen, SearchResult
from relay_operator.kinds.gpucluster import Cluster, GpuClusters, GpuClusterStatus, SeenCluster
from relay_wire.batches import Batch, BatchCounts, BatchCreate, BatchList, BatchStatus
from relay_wire.billing import BillingBreakdownItem, CurrentUsage
from relay_wire.clusters import ClusterCreate, ClusterScale, ClusterSummary
from tests.model import asked
from tests.model.asked import Answer, Asked, Failed
from tests.model.objects import (
    BATCH,
    KIND,
    MOMENT,
    NAMESPACE,
    id_of,
    kept,
    key_of,
    loaded,
    stored,
    uid_of,
    version_of_text,
)

ACCOUNT = ObjectKey("CloudAccount", NAMESPACE, "default")


class Suspended(BaseException):
    """The pass asks a question that has no answer yet. No handler of the operator catches a BaseException."""

    def __init__(self, asked: Asked) -> None:
        self.asked = asked


Oracle = Callable[[asked.Look], Answer]
"""Answers a look from the present state."""


class Script:
    """The answers of one pass, in order; after them, the oracle answers looks up to the first deed."""

    def __init__(self) -> None:
        self.begin((), None)

    def begin(self, answers: tuple[Answer, ...], oracle: Oracle | None) -> None:
        self.answers, self.place, self._oracle = answers, 0, oracle
        self.looked: list[tuple[asked.Look, Answer]] = []

    def ask(self, question: Asked) -> Answer:
        """Returns the answer; raises Suspended if neither the script nor the oracle has one."""
        if self.place < len(self.answers):
            self.place += 1
            return self.answers[self.place - 1]
        if self._oracle is None or not isinstance(question, asked.Look):
            raise Suspended(question)
        self.looked.append((question, self._oracle(question)))
        return self.looked[-1][1]


class ModelCloud:
    """The cloud, as the key of one organization sees it."""

    def __init__(self, script: Script, organization: int, stands: Callable[[], bool] = lambda: True) -> None:
        self._script, self.organization, self._stands = script, organization, stands
        self.lists = ListRoom()

    def guarded(self, stands: Callable[[], bool]) -> "ModelCloud":
        """Returns a cloud that also calls `stands` before it sends anything."""
        return ModelCloud(self._script, self.organization, stands)

    async def call(
        self,
        operation: Operation[Any, Any],
        body: object = None,
        *,
        id: str = "",  # noqa: A002
        query: Mapping[str, object] | None = None,
        large: bool = False,
    ) -> Any:
        """Asks the script and returns the answer as the operation's result; lists have one page. Raises CloudError.

        No answer is `large`.
        """
        match operation:
            case operations.CREATE_CLUSTER:
                assert isinstance(body, ClusterCreate)
                made = self._ask(asked.Create(body.name, self.organization, body.image_url or ""))
                return SimpleNamespace(id=made, name=body.name, status="running")
            case operations.TERMINATE_CLUSTER:
                return self._ask(asked.Terminate(id, self.organization))
            case operations.STOP_CLUSTER | operations.RESTART_CLUSTER:
                return self._ask(asked.Power(id, self.organization, operation is operations.RESTART_CLUSTER))
            case operations.SCALE_CLUSTER:
                assert isinstance(body, ClusterScale)
                return self._ask(asked.Scale(id, self.organization, body.replica_count))
            case operations.CREATE_BATCH:
                assert isinstance(body, BatchCreate)
                tag = (body.metadata or {})[TAG]
                made = cast(str, self._ask(asked.Create(tag, self.organization, "")))
                return batch_of(asked.Seen(made, tag, "running", 1))
            case operations.CANCEL_BATCH:
                return self._ask(asked.Terminate(id, self.organization))
            case operations.GET_BATCH:
                return batch_of(self.found(asked.Observe(id, self.organization)))
            case operations.LIST_BATCHES:
                listed = cast(tuple[asked.Seen, ...], self._script.ask(asked.Listed(self.organization)))
                return BatchList(data=[batch_of(one) for one in listed], has_more=False)
            case _:
                raise AssertionError(f"not modelled: {operation.name}")

    def found(self, question: asked.Observe) -> asked.Seen:
        """Returns the resource. Raises NotFound."""
        seen = self.look(question)
        if not isinstance(seen, asked.Seen):
            raise NotFound("observe", "no such resource")
        return seen

    def look(self, question: asked.Observe | asked.Find | asked.Living) -> Answer:
        """Asks the script for a read, which is not guarded."""
        return self._script.ask(question)

    def usage(self) -> CurrentUsage:
        """Returns the current usage with a row for each billed resource."""
        billed = cast(tuple[tuple[str, str], ...], self._script.ask(asked.Billed(self.organization)))
        rows = [
            BillingBreakdownItem(resource_id=number, kind="cluster", name=name, hours=1.0) for number, name in billed
        ]
        return CurrentUsage(usage_cents=0, usage_hours=0.0, breakdown=rows)

    def _ask(self, deed: asked.Sent) -> Answer:
        may_begin = self._script.ask(asked.Begin()) and self._stands()
        answer = self._script.ask(deed) if may_begin else asked.NOT_SENT
        if isinstance(answer, Failed):
            raise _cloud_error(answer)
        return answer


def _cloud_error(failed: Failed) -> CloudError:
    match failed:
        case asked.NO_ANSWER:
            return CloudUnavailable("call", "no complete answer", outcome=Outcome.UNKNOWN)
        case asked.NOT_SENT:
            return CloudUnavailable("call", "not sent", outcome=Outcome.NOT_SENT)
        case asked.MISSING:
            return NotFound("call", "no such resource")
        case _:
            return BadRequest("call", "said no")


class ModelClusters(GpuClusters):
    """The real kind, except that each read is one question to the model and only the image is immutable."""

    def __init__(self) -> None:
        """Omits the listing that settled clusters share."""

    def immutable(self, obj: Cluster) -> Mapping[str, JsonValue]:
        return {"image": obj.spec.image}

    async def observe(self, cloud: Cloud, cloud_id: str, last: GpuClusterStatus, look: Look) -> SeenCluster:
        ours = cast(ModelCloud, cloud)
        return _seen(ours.found(asked.Observe(cloud_id, ours.organization)))

    async def find(self, cloud: Cloud, name: str, unclaimed: UnclaimedIds) -> SearchResult[SeenCluster]:
        ours = cast(ModelCloud, cloud)
        found = ours.look(asked.Find(name, ours.organization))
        if isinstance(found, asked.Seen):
            return Found(_seen(found))
        return NotSeen() if found == asked.NOT_SEEN else CannotTell()

    async def living(self, cloud: Cloud, unclaimed: UnclaimedIds) -> Mapping[str, str]:
        ours = cast(ModelCloud, cloud)
        return dict(cast(tuple[tuple[str, str], ...], ours.look(asked.Living(ours.organization))))


def _seen(seen: asked.Seen) -> SeenCluster:
    return SeenCluster(
        ClusterSummary(id=seen.id, organization_id="", name=seen.name, status=seen.status, replica_count=seen.replicas)
    )


def batch_of(seen: asked.Seen) -> Batch:
    """Returns a batch as the cloud reports it; its name is the tag in its metadata."""
    status = BatchStatus.IN_PROGRESS if seen.status == "running" else BatchStatus.CANCELLED
    counts, file = BatchCounts(total=1), f"f{seen.name.split('/')[2]}"
    return Batch(id=seen.id, status=status, metadata={TAG: seen.name}, request_counts=counts, input_file_id=file)


class ModelAccounts:
    """The only account, with the key that it has at the time of the question."""

    def __init__(self, script: Script) -> None:
        self._script = script

    async def resolve(self, namespace: str, ref: object, *, ending: bool = False) -> AccountReady:
        organization, adoption = cast(tuple[int, bool], self._script.ask(asked.Resolve()))
        cloud = cast(Cloud, ModelCloud(self._script, organization))
        return AccountReady(ACCOUNT, cloud, f"org-{organization}", UnclaimedIds(), False, adoption)

    def deaf_for(self, account: AccountReady) -> float:
        return 0.0

    def found_by_polling(self, account: AccountReady) -> None:
        """Does nothing."""

    def failed(self, account: AccountReady, error: CloudError, whose: ObjectKey | None = None) -> None:
        """Does nothing."""

    def lacks_funds(self, account: AccountReady, key: ObjectKey) -> bool:
        return False

    def seen_funded(self, account: AccountReady) -> None:
        return None


class ModelKube:
    """The API server as one pass sees it. A write of only what no decision depends on succeeds and changes nothing."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self.last: dict[str, bytes] = {}
        """Objects and ConfigMaps as this pass knows them, by name."""
        self.config_maps: tuple[tuple[str, bytes], ...] = ()
        self.objects: tuple[JsonObject, ...] = ()
        """All objects, for a list."""
        self.dropped: set[str] | None = None
        """Collects the names of deleted ConfigMaps; None if each deletion is a step of its own."""

    async def get(self, kind: ResourceType, namespace: str | None, name: str) -> JsonObject:
        """Returns an object or a ConfigMap. Raises KubeError."""
        if kind is not CONFIG_MAPS:
            return self._taken(name, self._script.ask(asked.Read(_key_of(kind, name))))
        body = self._script.ask(asked.ReadMap(name))
        if not isinstance(body, bytes):
            raise _kube_error(asked.MISSING)
        return _config_map(name, body)

    async def patch(
        self,
        kind: ResourceType,
        namespace: str | None,
        name: str,
        body: Mapping[str, JsonValue],
        *,
        subresource: str | None = None,
    ) -> JsonObject:
        """Patches an object, its status, or a ConfigMap. Raises KubeError."""
        if kind is CONFIG_MAPS:
            return self._saved(name, body, new=False)
        metadata = cast(JsonObject, body["metadata"])
        status = kept(cast(JsonObject, body.get("status", {})))
        rest: JsonObject = {"status": status} if subresource else {"metadata": {**metadata, "resourceVersion": None}}
        if subresource and not status:
            return loaded(self.last[name])
        patch = orjson.dumps(rest, option=orjson.OPT_SORT_KEYS)
        version = str(metadata["resourceVersion"])  # empty: any version
        return self._taken(name, self._script.ask(asked.Patch(_key_of(kind, name), bool(subresource), version, patch)))

    async def create(self, kind: ResourceType, namespace: str, body: Mapping[str, JsonValue]) -> JsonObject:
        assert kind is CONFIG_MAPS
        return self._saved(str(cast(JsonObject, body["metadata"])["name"]), body, new=True)

    async def delete(
        self, kind: ResourceType, namespace: str | None, name: str, *, uid: str = "", version: str = ""
    ) -> None:
        """Deletes a ConfigMap. Raises KubeError."""
        assert kind is CONFIG_MAPS
        if self.dropped is not None:
            self.dropped.add(name)
        elif isinstance(answer := self._script.ask(asked.Drop(name, version)), Failed):
            raise _kube_error(answer)

    async def pages(self, kind: ResourceType, namespace: str | None) -> AsyncIterator[list[JsonObject]]:
        """Yields the ConfigMaps of the operator's namespace in one page."""
        assert kind is CONFIG_MAPS
        yield [_config_map(name, body) for name, body in self.config_maps]

    async def pages_as_of(
        self, kind: ResourceType, namespace: str | None
    ) -> AsyncIterator[tuple[list[JsonObject], str]]:
        """Yields all objects in one page; no watch begins after it."""
        yield list(self.objects), ""

    def _saved(self, name: str, body: Mapping[str, JsonValue], *, new: bool) -> JsonObject:
        (text,) = cast(JsonObject, body["data"]).values()
        record = orjson.loads(str(text))
        after = stored(record) if "metadata" in record else settled(record)
        if new and name in self.last:
            raise kube.AlreadyExists(409, "AlreadyExists", name)
        if self.last.get(name) != after:
            version = cast(JsonObject, body["metadata"]).get("resourceVersion") if "metadata" in body else None
            answer = self._script.ask(asked.Save(name, after, new, str(version or "")))
            if isinstance(answer, Failed):
                clash = new and answer == asked.CONFLICT
                raise kube.AlreadyExists(409, "AlreadyExists", name) if clash else _kube_error(answer)
            self.last[name] = after
        return dict(body)

    def _taken(self, name: str, answer: Answer) -> JsonObject:
        if isinstance(answer, Failed):
            raise _kube_error(answer)
        assert isinstance(answer, bytes)
        self.last[name] = answer
        return loaded(answer)


def _key_of(kind: ResourceType, name: str) -> ObjectKey:
    return key_of(name, BATCH if kind.plural == "inferencebatches" else KIND)


def _config_map(name: str, body: bytes) -> JsonObject:
    is_vanished = name.startswith("vanished")
    label, what = ("vanished", "object.json") if is_vanished else ("leftover", "resource.json")
    labels: JsonObject = {f"gpurelay.dev/{label}": "true" if is_vanished else loaded(body)["fate"]}
    metadata: JsonObject = {"name": name, "labels": labels, "resourceVersion": version_of_text(body)}
    return {"metadata": metadata, "data": {what: body.decode()}}


def settled(record: Mapping[str, JsonValue]) -> bytes:
    """Returns a leftover as JSON with a constant time of discovery, so that equal ones compare equal."""
    return orjson.dumps({**record, "since": MOMENT}, option=orjson.OPT_SORT_KEYS)


def orphan(number: int) -> tuple[str, tuple[tuple[int, str, bytes], ...]]:
    """Returns the name of an orphan, and the ConfigMap that records it.

    It was made for a deleted object whose name another object has now.
    """
    uid = uid_of("a", 0)
    name = cloud_name(NAMESPACE, "a", uid, "cafe0", 1)
    told = {
        "kind": KIND,
        "organization": "org-1",
        "id": id_of(number),
        "name": name,
        "of": f"{NAMESPACE}/a",
        "uid": uid,
    }
    record = Leftover.model_validate({"fate": Fate.ORPHAN, "account": ACCOUNT, "since": MOMENT, **told})
    return name, ((0, record.config_map, settled(record.model_dump(mode="json"))),)


def _kube_error(failed: Failed) -> kube.KubeError:
    match failed:
        case asked.CONFLICT:
            return kube.Conflict(409, "Conflict", "the object has been modified")
        case asked.MISSING:
            return kube.NotFound(404, "NotFound", "no such object")
        case asked.REFUSED:
            return kube.Refused(422, "Invalid", "this status is never taken")
        case _:
            return kube.Unavailable(0, "Unreachable", "no answer")


class ModelCache:
    """The process's cache: it holds the pass's object and vanished ones, and asks the world's cache for all others."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self.installation = Installation()
        self.entries: dict[ObjectKey, Entry] = {}
        self.forgotten: set[str] = set()
        """UIDs of objects that the pass dropped with their finalizers."""

    def get(self, key: ObjectKey) -> Entry | None:
        if key in self.entries or key.vanished:
            return self.entries.get(key)
        return cast(Entry | None, self._script.ask(asked.Lookup("get", (key,))))

    def put(self, key: ObjectKey, raw: Mapping[str, JsonValue]) -> tuple[Entry | None, Entry]:
        """Stores an object; returns its previous and its new entry."""
        before, after = self.entries.get(key), self.entry_of({**raw})
        self.entries[key] = after
        return before, after

    def entry_of(self, raw: Mapping[str, JsonValue]) -> Entry:
        return entry_of(raw, self.installation.name)

    def drop(self, key: ObjectKey, uid: str | None = None, version: int = 0) -> Entry | None:
        if uid is not None:
            self.forgotten.add(uid)
        return self.entries.pop(key, None)

    def keys(self, kind: str) -> list[ObjectKey]:
        return [key for key in self.entries if key.kind == kind]

    def is_gone(self, key: ObjectKey) -> bool:
        """Returns whether the account is gone, which it never is."""
        return False

    def account_of(self, key: ObjectKey) -> ObjectKey:
        """Returns the only account."""
        return ACCOUNT

    def account_meant(self, key: ObjectKey, entry: Entry) -> ObjectKey:
        return ACCOUNT

    def endpoint(self, key: ObjectKey) -> str:
        """Returns that of the only cloud, which nothing records."""
        return ""

    def endpoint_meant(self, key: ObjectKey, entry: Entry | None) -> str:
        return ""

    def called_by(self, account: ObjectKey) -> Endpoints:
        return NOWHERE

    def claim(self, cloud_id: str, key: ObjectKey, endpoint: str = "") -> frozenset[ObjectKey]:
        return cast(frozenset[ObjectKey], self._script.ask(asked.Claim(cloud_id, key)))

    def unclaim(self, key: ObjectKey) -> None:
        self._script.ask(asked.Unclaim(key))

    def __getattr__(self, method: str) -> Callable[..., Any]:
        """Passes a method that only reads on to the world's cache."""
        assert method in {
            "with_cloud_id", "with_token", "creators", "with_name", "only_giver", "others", "searching", "items",
            "holders",
        }, method  # fmt: skip
        return lambda *arguments, **named: self._script.ask(asked.Lookup(method, arguments, tuple(named.items())))
