"""The payloads of webhooks (section 6)."""

from collections.abc import Iterator
from enum import StrEnum
from itertools import islice
from typing import Final

from pydantic import Field, JsonValue

from relay_wire.base import RESOURCE_ID, Identifier, Lenient, Received

SIGNATURE_HEADER = "X-Relay-Signature"
EVENT_HEADER = "X-Relay-Event"
DELIVERY_HEADER = "X-Relay-Delivery"

_ID_KEYS = ("vmId", "podId", "replicaId", "clusterId", "id")


class EventType(StrEnum):
    """Every event type that section 6 lists; a received type may be any other string."""

    CLUSTER_RUNNING = "cluster.running"
    CLUSTER_DEGRADED = "cluster.degraded"
    CLUSTER_FAILED = "cluster.failed"
    REPLICA_HEALTHY = "replica.healthy"
    REPLICA_UNHEALTHY = "replica.unhealthy"
    REPLICA_TERMINATED = "replica.terminated"
    VM_RUNNING = "vm.running"
    VM_STOPPED = "vm.stopped"
    VM_TERMINATED = "vm.terminated"


MOST_IDS: Final = 16
"""The most ids that are read of an event: whoever signs one could name thousands."""


class Event(Received):
    """The payload of a delivery; only cluster events have a known `data` (`clusterId`), so any shape is accepted."""

    id: Identifier
    type: Identifier
    created_at: Lenient[str] = Field(default=None, alias="created_at")
    data: JsonValue = None

    @property
    def resource_ids(self) -> tuple[str, ...]:
        """The ids in `data`, likeliest first: `vmId`, `podId`, `replicaId`, `clusterId`, `id`; then one level down.

        A replica event may name both the replica and its cluster. An event is a hint: verify the ids with the cloud.
        """
        return tuple(islice(dict.fromkeys(_named_ids(self.data)), MOST_IDS))

    @property
    def resource_id(self) -> str | None:
        """The first of `resource_ids`."""
        return next(iter(self.resource_ids), None)


def _named_ids(data: JsonValue) -> Iterator[str]:
    if not isinstance(data, dict):
        return
    yield from _ids_of(data)
    for value in data.values():
        if isinstance(value, dict):
            yield from _ids_of(value)


def _ids_of(data: dict[str, JsonValue]) -> Iterator[str]:
    for key in _ID_KEYS:
        value = data.get(key)
        if isinstance(value, str) and RESOURCE_ID.fullmatch(value):
            yield value
