"""Writes a workload's endpoint into a Secret or ConfigMap of its namespace. Never overwrites another owner's."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from pydantic import JsonValue

from relay_client.errors import clause
from relay_kube.errors import NotFound, NotLeading, Refused
from relay_kube.kube import CONFIG_MAPS, SECRETS, JsonObject, Kube, ResourceType
from relay_operator.api.connection import Connection, ConnectionTarget
from relay_operator.api.meta import ObjectKey
from relay_operator.engine.manifests import WORDS, as_secret, is_owned_by, owner, part, unquoted
from relay_operator.flows.managed.memory import ManagedMemory

MOST_CHARACTERS: Final = 128 * 1024
"""The most in the texts of one Secret or ConfigMap: twice what templates can have, and half of what Kubernetes takes if
each character takes 4 bytes."""


@dataclass(frozen=True, slots=True)
class Reached:
    """A workload's endpoint; `deploy_token` is a secret."""

    endpoint_url: str
    cloud_id: str
    deploy_token: str = ""

    def values(self, *, secret: bool) -> Mapping[str, str]:
        """The values by placeholder name, without unknown ones; the token only for a Secret."""
        known = {
            "endpointUrl": self.endpoint_url,
            "host": _host(self.endpoint_url),
            "id": self.cloud_id,
            "deployToken": self.deploy_token if secret else "",
        }
        return {name: value for name, value in known.items() if value}


def _host(url: str) -> str:
    """Host and port of a URL; empty if the cloud reports a malformed one."""
    try:
        return urlsplit(url).netloc
    except ValueError:
        return ""


def filled(target: ConnectionTarget, values: Mapping[str, str]) -> dict[str, str] | None:
    """The target's keys with their templates filled in; None if the texts would have more than `MOST_CHARACTERS`.

    A placeholder without a value becomes empty.
    """
    if target.keys is None:
        texts = {name: [value] for name, value in values.items()}
    else:
        texts = {key: [*_pieces(template, values)] for key, template in target.keys.items()}
    # Counted before anything is joined: a short template can name a long value hundreds of times.
    if sum(len(piece) for pieces in texts.values() for piece in pieces) > MOST_CHARACTERS:
        return None
    return {key: "".join(pieces) for key, pieces in texts.items()}


def _pieces(template: str, values: Mapping[str, str]) -> Iterator[str]:
    """What the text consists of; no value is copied."""
    first, *others = template.split("{{")
    yield first
    for braced in others:
        name, closed, rest = braced.partition("}}")
        yield from (values.get(name.strip(), ""), rest) if closed else ("{{", braced)


@dataclass(slots=True)
class ConnectionWriter:
    """Maintains the Secret and the ConfigMap of `spec.connection`; sends nothing while they are as desired."""

    kube: Kube
    leading: Callable[[], bool]
    """Asked once more after each read: another leader may have pointed others elsewhere."""

    async def write(
        self, key: ObjectKey, uid: str, connection: Connection, reached: Reached, memory: ManagedMemory
    ) -> str:
        """Write both; returns what prevents it, empty if nothing does. Raises KubeError."""
        if not reached.endpoint_url:
            return ""
        for kind, target in _targets(connection):
            data = filled(target, reached.values(secret=kind is SECRETS))
            if data is None:
                return (
                    f"connection: the {WORDS[kind.plural]} {target.name} would have more than {MOST_CHARACTERS:,} "
                    "characters: put fewer placeholders into its keys"
                )
            if problem := await self._write(key, uid, kind, target, data, memory):
                return problem
        return ""

    async def intact(self, key: ObjectKey, uid: str, connection: Connection, memory: ManagedMemory) -> bool:
        """Whether the data that was written is unchanged; reads the Secret and the ConfigMap in turn, one per call.

        What was changed is forgotten here, so that it is written again. Raises KubeError.
        """
        known = [(kind, target) for kind, target in _targets(connection) if kind.plural in memory.connections]
        if not known:
            return True
        kind, target = known[memory.quiet_looks % len(known)]
        try:
            found = await self.kube.get(kind, key.namespace, target.name)
        except NotFound:
            found = {}
        written = _hash(found.get("data") or {}) == memory.connections[kind.plural][1]
        same = written and is_owned_by(found, uid) and _carries(found, target.labels or {})
        if not same:
            del memory.connections[kind.plural]
        return same

    async def _write(
        self,
        key: ObjectKey,
        uid: str,
        kind: ResourceType,
        target: ConnectionTarget,
        data: dict[str, str],
        memory: ManagedMemory,
    ) -> str:
        labels: dict[str, JsonValue] = dict(target.labels or {})
        body: JsonObject = {"data": as_secret(data) if kind is SECRETS else dict(data)}
        marker = (_hash([target.name, labels, body]), _hash(body["data"]))
        if memory.connections.get(kind.plural) == marker:
            return ""
        body["metadata"] = {"name": target.name, "labels": labels, "ownerReferences": [owner(key, uid)]}
        try:
            problem = await self._put(kind, key.namespace, target.name, body, uid)
        except Refused as refused:
            check = "check quotas, admission policies and the operator's rights"
            problem = f"connection: the API server refuses it: {clause(str(refused))}; {check}"
        if not problem:
            memory.connections[kind.plural] = marker
        return problem

    async def _put(self, kind: ResourceType, namespace: str, name: str, body: JsonObject, uid: str) -> str:
        found: JsonObject | None
        try:
            found = await self.kube.get(kind, namespace, name)
        except NotFound:
            found = None
        if not self.leading():  # from here on, the write is refused if another leader's came first
            raise NotLeading
        if found is None:
            with _unquoted(kind, name):
                await self.kube.create(kind, namespace, body)
            return ""
        return await self._replace(kind, namespace, name, found, body, uid)

    async def _replace(
        self, kind: ResourceType, namespace: str, name: str, found: JsonObject, body: JsonObject, uid: str
    ) -> str:
        if not is_owned_by(found, uid):
            return f"connection: the {WORDS[kind.plural]} {name} exists and is not this object's: choose another name"
        before = found.get("data")
        data: JsonValue = body["data"]
        metadata = part(body, "metadata")
        if before == data and _carries(found, part(metadata, "labels")):
            return ""  # as an earlier process wrote it
        if isinstance(before, dict) and isinstance(data, dict):
            dropped: JsonObject = dict.fromkeys(set(before) - set(data))
            body = {**body, "data": {**dropped, **data}}
        # Refused if somebody recreated it since: what is another's is not overwritten.
        body = {**body, "metadata": {**metadata, "resourceVersion": part(found, "metadata").get("resourceVersion")}}
        with _unquoted(kind, name):
            await self.kube.patch(kind, namespace, name, body)
        return ""


def _targets(connection: Connection) -> Sequence[tuple[ResourceType, ConnectionTarget]]:
    asked = ((SECRETS, connection.secret), (CONFIG_MAPS, connection.config_map))
    return [(kind, target) for kind, target in asked if target is not None]


def _unquoted(kind: ResourceType, name: str) -> AbstractContextManager[None]:
    return unquoted(name) if kind is SECRETS else nullcontext()


def _hash(value: JsonValue) -> int:
    return hash(json.dumps(value, sort_keys=True))


def _carries(found: Mapping[str, JsonValue], labels: Mapping[str, JsonValue]) -> bool:
    """Whether the desired labels are there."""
    return part(found, "metadata", "labels").items() >= labels.items()
