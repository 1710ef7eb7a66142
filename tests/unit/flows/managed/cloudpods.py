"""Pods in a cloud that is a dictionary: the real mapping of a GpuPod, its calls answered from memory."""

import itertools
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace

from relay_client import Cloud, CloudError, CloudUnavailable, Conflict, NotFound, Outcome, PaymentRequired, Unauthorized
from relay_operator.accounts.shortage import Shortage
from relay_operator.api.conditions import Reason
from relay_operator.api.meta import CreateIntent, ObjectKey
from relay_operator.api.references import AccountRef
from relay_operator.engine.account import AccountReady, AccountRefused, AccountState
from relay_operator.engine.unclaimed_ids import UnclaimedIds
from relay_operator.flows.managed.actions import RESTART, START, STOP
from relay_operator.flows.managed.resource import (
    CannotTell,
    Change,
    Found,
    Inputs,
    Look,
    NotSeen,
    SearchResult,
    Unfinished,
)
from relay_operator.kinds.gpupod import GpuPods, GpuPodStatus, Pod
from relay_operator.kinds.machines import Machines
from relay_wire.vms import VmRecord

POD: dict[str, object] = {"imageUrl": "pytorch/pytorch", "gpuCount": 1, "volumeGb": 50, "gpuModelId": "h100"}
"""Fields of a pod as the cloud tells them."""


@dataclass
class Failure:
    """How a call fails; `acted`: the cloud did as asked, and only the answer is lost."""

    error: Exception
    acted: bool = False


def lost(*, acted: bool) -> Failure:
    """No answer came."""
    return Failure(CloudUnavailable("call", "no complete answer within 30 s"), acted=acted)


def refused(error: type[CloudError], *, code: str | None = None, retry_after: float | None = None) -> Failure:
    """The cloud said no; nothing happened."""
    return Failure(error("call", "said no", code=code, retry_after=retry_after, outcome=Outcome.REJECTED))


@dataclass
class Pods:
    """One organization's pods."""

    records: dict[str, VmRecord] = field(default_factory=dict)
    created: list[str] = field(default_factory=list)
    """Names, in the order of creation."""
    sent: list[tuple[CreateIntent, Inputs]] = field(default_factory=list)
    """Every create that was sent, whatever came of it."""
    calls: list[str] = field(default_factory=list)
    listable: bool = True
    more_to_find: int = 0
    """Searches that come to no end."""
    deaf: bool = False
    hidden: set[str] = field(default_factory=set)
    """Ids that reads and lists do not show."""
    born: str = "running"
    """The state of a pod right after its create."""
    failures: dict[str, deque[Failure]] = field(default_factory=dict)
    before_change: Callable[[str], None] = lambda _call: None
    """Called while a change waits to be sent: what somebody else does meanwhile."""
    on_call: Callable[[str], None] = lambda _call: None
    """Called when a call has been carried out: what somebody else does just then."""
    unendable: set[str] = field(default_factory=set)
    """Ids of pods whose termination is refused."""
    random_failure: Callable[[str], Failure | None] = lambda _call: None
    misses: Callable[[str], bool] = lambda _subject: False
    """Whether a look, by id or by name, does not show what is there."""
    _ids: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    def fail(self, call: str, *failures: Failure) -> None:
        """The next calls of this kind fail so."""
        self.failures.setdefault(call, deque()).extend(failures)

    def begin_change(self, call: str, cloud: Cloud) -> Failure | None:
        """The same for what is sent only if the guard of the request says so."""
        self.before_change(call)
        if not cloud._may_begin():
            raise CloudUnavailable(call, "not sent", outcome=Outcome.NOT_SENT)
        return self.begin(call)

    def once_before_change(self, do: Callable[[], None]) -> None:
        """Somebody does this while the next change waits to be sent."""

        def just_then(_call: str) -> None:
            self.before_change = lambda _call: None
            do()

        self.before_change = just_then

    def begin(self, call: str) -> Failure | None:
        """Notes the call; how it is going to fail. Raises where it fails before anything happens."""
        self.calls.append(call)
        waiting = self.failures.get(call)
        failure = waiting.popleft() if waiting else self.random_failure(call)
        if failure is not None and not failure.acted:
            raise failure.error
        return failure

    def end(self, call: str, failure: Failure | None) -> None:
        """The answer, or its loss."""
        self.on_call(call)
        if failure is not None:
            raise failure.error

    def add(self, name: str, state: str = "running", fields: Mapping[str, object] | None = None) -> VmRecord:
        """A pod that somebody else made, or a create that the cloud acted on."""
        record = VmRecord.model_validate(
            {"id": f"pod-{next(self._ids)}", "name": name, "status": state, **(fields or {})}
        )
        self.records[record.id] = record
        self.created.append(name)
        return record

    def obey(self, cloud_id: str, state: str, **fields: object) -> None:
        """What a change leads to; a cloud that is deaf takes it, and does nothing."""
        if not self.deaf:
            self.become(cloud_id, state, **fields)

    def become(self, cloud_id: str, state: str, **fields: object) -> None:
        """What happens to a pod by itself, or by somebody else's hand."""
        self.records[cloud_id] = self.records[cloud_id].model_copy(update={"status": state, **fields})

    @property
    def live(self) -> list[VmRecord]:
        """What is paid for."""
        return [record for record in self.records.values() if record.status != "terminated"]

    def count(self, call: str) -> int:
        """How often a call was made."""
        return Counter(self.calls)[call]


class MemoryPods(GpuPods):
    """GpuPods whose calls go to `Pods`."""

    def __init__(self, pods: Pods) -> None:
        self.pods = pods
        self.looks: list[Look] = []

    async def observe(self, cloud: Cloud, cloud_id: str, last: GpuPodStatus, look: Look) -> VmRecord:
        self.looks.append(look)
        failure = self.pods.begin("observe")
        if cloud_id not in self.pods.records or cloud_id in self.pods.hidden or self.pods.misses(cloud_id):
            raise NotFound("get_vm", "no such pod", status=404)
        self.pods.end("observe", failure)
        return self.pods.records[cloud_id]

    async def find(self, cloud: Cloud, name: str, unclaimed: UnclaimedIds) -> SearchResult[VmRecord]:
        failure = self.pods.begin("find")
        self.pods.end("find", failure)
        if self.pods.more_to_find > 0:
            self.pods.more_to_find -= 1
            return Unfinished()
        for cloud_id in unclaimed.nameless():
            unclaimed.learn(cloud_id, self.pods.records[cloud_id].name)
        known = unclaimed.named(name)
        if known is not None:
            return Found(self.pods.records[known])
        if not self.pods.listable:
            return CannotTell()
        if self.pods.misses(name):
            return NotSeen()
        shown = (record for record in self.pods.live if record.id not in self.pods.hidden)
        found = next((record for record in shown if record.name == name), None)
        return NotSeen() if found is None else Found(found)

    async def living(self, cloud: Cloud, unclaimed: UnclaimedIds) -> Mapping[str, str]:
        return await super(Machines, self).living(cloud, unclaimed)

    async def create(self, cloud: Cloud, obj: Pod, intent: CreateIntent, inputs: Inputs) -> VmRecord:
        self.pods.sent.append((intent, inputs))
        failure = self.pods.begin_change("create", cloud)
        count = obj.spec.gpu.count if obj.spec.gpu is not None else 1
        record = self.pods.add(
            intent.name,
            self.pods.born,
            {
                "imageUrl": obj.spec.image,
                "gpuCount": count,
                "volumeGb": obj.spec.volume_gb,
                "gpuModelId": inputs.model_id or "h100",
                "endpointUrl": f"https://{intent.name}.example/",
                "public": obj.spec.public,
            },
        )
        self.pods.end("create", failure)
        return record

    def stop(self, cloud_id: str) -> Change:
        return replace(super().stop(cloud_id), send=self._power(STOP, cloud_id, "stopped"))

    def start(self, cloud_id: str) -> Change:
        return replace(super().start(cloud_id), send=self._power(START, cloud_id, "running"))

    def restart(self, cloud_id: str) -> Change:
        return replace(super().restart(cloud_id), send=self._power(RESTART, cloud_id, "running"))

    def _power(self, name: str, cloud_id: str, state: str) -> Callable[[Cloud], Awaitable[None]]:
        async def send(cloud: Cloud) -> None:
            failure = self.pods.begin_change(name, cloud)
            self.pods.obey(cloud_id, state)
            self.pods.end(name, failure)

        return send

    def changes(self, obj: Pod, observed: VmRecord, *, running: bool) -> tuple[Change, ...]:
        async def send(cloud: Cloud) -> None:
            failure = self.pods.begin_change("visibility", cloud)
            self.pods.obey(observed.id, observed.status, public=obj.spec.public)
            self.pods.end("visibility", failure)

        return tuple(replace(change, send=send) for change in super().changes(obj, observed, running=running))

    async def delete(self, cloud: Cloud, cloud_id: str) -> None:
        failure = self.pods.begin_change("delete", cloud)
        if cloud_id in self.pods.unendable:
            raise Conflict("terminate_vm", "it is busy", status=409)
        if cloud_id not in self.pods.records:
            raise NotFound("terminate_vm", "no such pod", status=404)
        self.pods.become(cloud_id, "terminated")
        self.pods.end("delete", failure)


@dataclass
class OneAccount:
    """Everybody's account, in the state the test says."""

    state: AccountState
    admits: bool = True
    """Whether it admits the namespace."""
    asked: list[AccountRef | None] = field(default_factory=list)
    refusals: list[AccountReady] = field(default_factory=list)
    untold: int = 0
    deaf_until: float = 0.0
    clock: Callable[[], float] = lambda: 0.0
    shortage: Shortage = field(default_factory=lambda: Shortage(600.0))

    @property
    def ready(self) -> AccountReady:
        """Its state, in which it can be used."""
        assert isinstance(self.state, AccountReady)
        return self.state

    def share(self) -> None:
        """From here on it is shared, and does not say allowAdoption."""
        self.state = replace(self.ready, adoption_allowed=False)

    async def resolve(self, namespace: str, ref: AccountRef | None, *, ending: bool = False) -> AccountState:
        self.asked.append(ref)
        if self.admits or not isinstance(self.state, AccountReady):
            return self.state
        if ending:
            return replace(self.state, admits=False, adoption_allowed=False)
        return AccountRefused(Reason.ACCOUNT_NOT_ALLOWED, "the namespace is not admitted")

    def found_by_polling(self, account: AccountReady) -> None:
        self.untold += 1

    def deaf_for(self, account: AccountReady) -> float:
        return max(self.deaf_until - self.clock(), 0.0)

    def failed(self, account: AccountReady, error: CloudError, whose: ObjectKey | None = None) -> None:
        if isinstance(error, Unauthorized):
            self.refusals.append(account)
        if isinstance(error, PaymentRequired) and whose is not None:
            self.shortage.refused(whose, self.clock())

    def lacks_funds(self, account: AccountReady, key: ObjectKey) -> bool:
        return self.shortage.keeps_back(key)

    def seen_funded(self, account: AccountReady) -> float | None:
        at = self.shortage.funded_at()
        return None if at is None else self.clock() - at


def unauthorized() -> Failure:
    """The key is refused."""
    return Failure(Unauthorized("call", "the key was revoked", status=401))


class OnePod(MemoryPods):
    """There is one at most, and it has no name."""

    async def existing(self, cloud: Cloud, obj: Pod) -> VmRecord | None:
        self.pods.end("existing", self.pods.begin("existing"))
        return next(iter(self.pods.live), None)

    async def find(self, cloud: Cloud, name: str, unclaimed: UnclaimedIds) -> SearchResult[VmRecord]:
        raise AssertionError("no name finds what has none")

    def identity(self, observed: VmRecord) -> tuple[str, str]:
        return observed.id, ""
