"""A Lease behind an API server's rules, and candidates for it."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from relay_kube.errors import AlreadyExists, Conflict, NotFound, Refused, Unavailable
from relay_kube.kube import JsonObject, ResourceType
from relay_operator.leader.election import Election, LeaseTimes

TIMES = LeaseTimes(duration=15, renew_deadline=10, retry=2)


@dataclass
class World:
    """One Lease behind an API server's rules, and the time."""

    now: float = 1_000.0
    lease: JsonObject | None = None
    version: int = 0
    faults: list[str] = field(default_factory=list)
    """For the next calls: "" for none, "refused", a failure "before" or "after" the action, or a "slow" answer."""
    calls: int = 0

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)

    async def get(self, _kind: ResourceType, _namespace: str | None, _name: str) -> JsonObject:
        fault = self._fault()
        if self.lease is None:
            raise NotFound(404, "NotFound", "no lease")
        return self._answer(fault)

    async def create(self, _kind: ResourceType, _namespace: str | None, body: Mapping[str, JsonValue]) -> JsonObject:
        fault = self._fault()
        if self.lease is not None:
            raise AlreadyExists(409, "AlreadyExists", "lease")
        self.store(body["spec"])
        return self._answer(fault)

    async def patch(
        self, _kind: ResourceType, _namespace: str | None, _name: str, body: Mapping[str, JsonValue]
    ) -> JsonObject:
        fault = self._fault()
        if self.lease is None:
            raise NotFound(404, "NotFound", "no lease")
        metadata, spec, before = body["metadata"], body["spec"], self.lease["spec"]
        assert isinstance(metadata, dict)
        assert isinstance(spec, dict)
        assert isinstance(before, dict)
        if metadata["resourceVersion"] != str(self.version):
            raise Conflict(409, "Conflict", "lease")
        self.store({key: value for key, value in {**before, **spec}.items() if value is not None})
        return self._answer(fault)

    def candidate(self, identity: str) -> Election:
        return Election(self, "relay-system", "relay-operator", identity, TIMES, clock=self.clock, sleep=self.sleep)

    def label(self) -> None:
        """Somebody touches the Lease without taking it."""
        assert self.lease is not None
        self.store(self.lease["spec"])

    def empty(self) -> None:
        """Somebody removes the holder by hand."""
        if self.lease is not None and isinstance(spec := self.lease["spec"], dict):
            self.store({key: value for key, value in spec.items() if key != "holderIdentity"})

    def holder(self) -> JsonValue:
        spec = self.lease["spec"] if self.lease else None
        return spec.get("holderIdentity") if isinstance(spec, dict) else None

    def store(self, spec: JsonValue) -> None:
        self.version += 1
        self.lease = {"metadata": {"resourceVersion": str(self.version)}, "spec": spec}

    def _fault(self) -> str:
        self.calls += 1
        fault = self.faults.pop(0) if self.faults else ""
        if fault == "refused":
            raise Refused(403, "Forbidden", "leases is forbidden")
        if fault == "before":
            raise Unavailable(0, "Unreachable", "not sent")
        return fault

    def _answer(self, fault: str) -> JsonObject:
        if fault == "after":
            raise Unavailable(0, "Unreachable", "the answer is lost")
        assert self.lease is not None
        answer = self.lease
        if fault == "slow":
            self.now += 9
        return answer
