"""Endpoints, keys and upstreams, cached between requests: a repeated lookup costs no database read.

A change in the database removes the cached entry in the same transaction, whichever code makes it (`Store.watch`); the
next lookup reads it again.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal, assert_never

from relay_localcloud.clusters.clusters import clusters
from relay_localcloud.gateway import endpoints
from relay_localcloud.gateway.endpoints import (
    CLUSTER_COLUMNS,
    WORKLOAD_COLUMNS,
    Endpoint,
    IdTarget,
    LabelTarget,
    Target,
)
from relay_localcloud.http.errors import ApiError
from relay_localcloud.identity.credentials import KEY_PREFIX, KEYS, LEGACY_KEY_PREFIX, RefusedKey, authenticate, digest
from relay_localcloud.kernel.due import DueHandler, DueItem
from relay_localcloud.kernel.instants import MINUTE
from relay_localcloud.kernel.store import Store, Tx
from relay_localcloud.runtimes.runtime import Containers, Way
from relay_localcloud.workloads import images
from relay_localcloud.workloads.workloads import workloads

_REMEMBERED: Final = 20_000
"""The most endpoints, and the most keys, in the cache; beyond that, all are dropped and read again."""

_READ_AGAIN_EVERY: Final = MINUTE
"""The greatest age, on the cloud's clock, of a cached key, so that `lastUsedAt` is right to the minute."""


_KEY_EXPIRES: Final = "gateway.key_expires"


def _forget_expired(tx: Tx, item: DueItem) -> None:
    # Written unchanged: this notifies the watchers of keys.
    key = KEYS.find(tx, id=item.subject)
    if key is not None:
        KEYS.change(tx, key.id, expires_at=key.expires_at)


def _schedule_expiry(key_id: str, expires_at: int, tx: Tx) -> None:
    tx.schedule(expires_at, _KEY_EXPIRES, key_id)


HANDLERS: Final[Mapping[str, DueHandler]] = {_KEY_EXPIRES: _forget_expired}


@dataclass(frozen=True, slots=True)
class _Key:
    organization_id: str
    expires_at: int | None
    read_at: int


class Directory:
    """What the gateway looks up for each request; `now` is the cloud's time, in microseconds.

    `containers` is None if workloads are simulated: then an image's upstream, or the echo, answers for them.
    """

    def __init__(self, store: Store, now: Callable[[], int], containers: Containers | None = None) -> None:
        self._store = store
        self._now = now
        self._containers = containers
        self._endpoints: dict[str, Endpoint] = {}
        # A label is never the id of another workload, so one table can hold both.
        self._keys: dict[str, _Key] = {}
        self._keys_were_forgotten = False
        self._upstreams: dict[str, str] | None = None
        self.on_change: Callable[[str], None] = lambda _: None
        """Called in the transaction with the id of a workload whose endpoint has changed."""
        self.on_key_change: Callable[[str | None], None] = lambda _: None
        """Called in the transaction with the organization whose key has changed; None if the key is not cached."""
        if containers is not None:
            containers.moved = self._container_moved
        store.watch(workloads, "id", WORKLOAD_COLUMNS, self._forget_endpoint)
        store.watch(clusters, "id", CLUSTER_COLUMNS, self._forget_endpoint)
        store.watch(KEYS.table, "digest", ("revoked_at", "expires_at", "organization_id"), self._forget_key)
        store.watch(images.gateway_upstreams, "image", ("url",), self._forget_upstreams)

    def endpoint(self, target: Target) -> Endpoint | None:
        """The endpoint of a live workload; None if there is none, or if it has no such host."""
        match target:
            case LabelTarget(label, port):
                found = self._found(label, "label")
                if found is None or found.per_port != (port is not None):
                    return None
                return found if port is None else replace(found, port=port)
            case IdTarget(workload_id):
                return self._found(workload_id, "id")
            case _ as never:
                assert_never(never)

    def organization_of_key(self, credential: str) -> str | None:
        """The organization of an API key; None if it is not a key, or is revoked or expired."""
        if not credential.isascii() or not credential.startswith((KEY_PREFIX, LEGACY_KEY_PREFIX)):
            return None
        fingerprint = digest(credential)
        key = self._keys.get(fingerprint)
        now = self._now()
        if key is None or not 0 <= now - key.read_at < _READ_AGAIN_EVERY:
            key = self._read_key(credential, fingerprint)
        if key is None or (key.expires_at is not None and key.expires_at <= now):
            return None
        return key.organization_id

    def remembers(self, credential: str, organization_id: str) -> bool:
        """Whether this is cached as a key of the organization; never reads the database."""
        key = self._keys.get(digest(credential)) if credential.isascii() else None
        return key is not None and key.organization_id == organization_id

    def way(self, endpoint: Endpoint, uid: str | None = None) -> Way | None:
        """Where requests to a workload go; None for the echo. ApiError 503 while none of its containers runs.

        With `uid`, where requests to exactly this container go; ApiError 503 once it no longer runs.
        """
        if self._containers is None:
            url = self.upstream(endpoint.image)
            return None if url is None else Way(url, f"The image's upstream {url}")
        way = self._containers.way(endpoint.organization_id, endpoint.workload_id, endpoint.port, uid)
        if way is None:
            message = (
                f"The container of the {endpoint.noun} {endpoint.workload_id} does not run at the moment: try again."
            )
            raise ApiError(503, message, "workload_not_running")
        return way

    def upstream(self, image: str | None) -> str | None:
        """The URL that answers for workloads of the image; None for the echo."""
        if self._upstreams is None:
            with self._store.transaction() as tx:
                self._upstreams = images.every(tx)
        return None if image is None else self._upstreams.get(image)

    def _found(self, name: str, field: Literal["label", "id"]) -> Endpoint | None:
        known = self._endpoints.get(name)
        if known is not None:
            return known
        with self._store.transaction() as tx:
            endpoint = endpoints.find(tx, **{field: name})
        if endpoint is not None:
            if len(self._endpoints) >= _REMEMBERED:
                self._endpoints.clear()
            self._endpoints[endpoint.label] = self._endpoints[endpoint.workload_id] = endpoint
        return endpoint

    def _read_key(self, credential: str, fingerprint: str) -> _Key | None:
        try:
            with self._store.transaction() as tx:  # runs due items first: an expiry must still find the key cached
                authenticate(tx, credential)
                found = KEYS.find(tx, digest=fingerprint)
                assert found is not None
                if found.expires_at is not None:
                    tx.note(partial(_schedule_expiry, found.id, found.expires_at))
                key = _Key(found.organization_id, found.expires_at, tx.now)
        except RefusedKey:
            self._keys.pop(fingerprint, None)
            return None
        if len(self._keys) >= _REMEMBERED:
            self._keys.clear()
            self._keys_were_forgotten = True
        self._keys[fingerprint] = key
        return key

    def _container_moved(self, workload_id: str) -> None:
        self.on_change(workload_id)

    def _forget_endpoint(self, workload_id: str) -> None:
        endpoint = self._endpoints.pop(workload_id, None)
        if endpoint is not None:
            del self._endpoints[endpoint.label]
        self.on_change(workload_id)

    def _forget_key(self, fingerprint: str) -> None:
        key = self._keys.pop(fingerprint, None)
        if key is not None or self._keys_were_forgotten:  # otherwise the key, such as a new one, has admitted nobody
            self.on_key_change(None if key is None else key.organization_id)

    def _forget_upstreams(self, _: str) -> None:
        self._upstreams = None
