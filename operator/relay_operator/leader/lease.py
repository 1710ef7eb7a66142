"""What a Lease says, and who may take it. Pure."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from relay_operator.engine.kube import JsonObject, ResourceType

LEASES = ResourceType("leases", "coordination.k8s.io")


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """Seconds; `retry < renew_deadline < duration`, or two could lead at once."""

    duration: float
    renew_deadline: float
    retry: float


@dataclass(frozen=True, slots=True)
class Lease:
    """A Lease as it was seen; two that are equal show that nobody wrote in between."""

    version: str
    holder: str
    """Empty: released."""
    duration: float
    transitions: int

    @classmethod
    def read(cls, body: Mapping[str, JsonValue], default_duration: float) -> "Lease":
        """Reads the object; what is missing or no number counts as absent."""
        metadata, spec = body.get("metadata"), body.get("spec")
        metadata = metadata if isinstance(metadata, dict) else {}
        spec = spec if isinstance(spec, dict) else {}
        duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
        return cls(
            version=str(metadata.get("resourceVersion") or ""),
            holder=str(spec.get("holderIdentity") or ""),
            duration=float(duration) if isinstance(duration, int) else default_duration,
            transitions=transitions if isinstance(transitions, int) else 0,
        )


def may_take(lease: Lease, identity: str, unchanged_seconds: float) -> bool:
    """Whether the Lease is free, ours, or was not renewed for as long as its holder promised to be gone by."""
    return lease.holder in ("", identity) or unchanged_seconds >= lease.duration


def claim(former: Lease | None, identity: str, times: LeaseTimes, now: str) -> JsonObject:
    """The spec by which a candidate takes the Lease; `now` is for people to read, no decision rests on it."""
    spec: JsonObject = {
        "holderIdentity": identity,
        # Rounded up: a standby must never be quicker than this holder is sure to have ended.
        "leaseDurationSeconds": math.ceil(times.duration),
        "renewTime": now,
    }
    if former is None or former.holder != identity:
        spec["acquireTime"] = now
        spec["leaseTransitions"] = 0 if former is None else former.transitions + 1
    return spec
