"""What pods and VMs share: the record, the paths, the list (section 4, "VMs and pods")."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import ClassVar, Final, Generic

from pydantic import Field

from relay_client import BadRequest, Cloud, Forbidden, Listing, NotFound, Unreadable, listing, operations
from relay_operator.api.conditions import Reason
from relay_operator.api.meta import Resource
from relay_operator.api.workload import SpecT, StatusT, WorkloadStatus
from relay_operator.budgets.prices import Capacity
from relay_operator.engine.unclaimed_ids import UnclaimedIds
from relay_operator.flows.managed.actions import RESTART, START, STOP
from relay_operator.flows.managed.connection import Reached
from relay_operator.flows.managed.resource import (
    CannotTell,
    Change,
    ExternalResource,
    Found,
    Look,
    NotSeen,
    Progress,
    SearchResult,
    Unfinished,
    power,
)
from relay_operator.kinds.by_name import by_name
from relay_wire.pods import PodStatus
from relay_wire.vms import Visibility, VmRecord

_PROGRESS: Mapping[str, Progress] = {
    PodStatus.RUNNING: Progress.READY,
    PodStatus.STOPPED: Progress.STOPPED,
    PodStatus.INTERRUPTED: Progress.INTERRUPTED,
    PodStatus.FAILED: Progress.FAILED,
    PodStatus.TERMINATED: Progress.GONE,
}

MIRRORED: Final[tuple[str, ...]] = (
    "status_reason",
    "endpoint_url",
    "price_per_hour_cents",
    "gpu_model_id",
    "gpu_count",
    "public",
    "provisioning_stage",
)
"""Fields that the status of both kinds shares with the cloud, by name."""
_LOOKUPS = 10
"""How many ids from webhooks one pass looks up: there may be a thousand, and other objects wait for the worker."""


class MachineStatus(WorkloadStatus):
    """What the cloud says about a pod or VM."""

    public: bool | None = Field(None, description="Whether the endpoint is open to anybody.")
    provisioning_stage: str | None = Field(None, max_length=128, description="How far the cloud is with placing it.")


# The words of `serviceType` (assumed).
POD, VM = "pod", "vm"


class Machines(ExternalResource[SpecT, StatusT, VmRecord], Generic[SpecT, StatusT]):
    """How pods and VMs map to the cloud, except their create and what status shows."""

    others: ClassVar[str]
    """The `serviceType` of the other kind. Its words are assumed, so that any other value proves nothing."""
    told_by_webhooks = frozenset({PodStatus.RUNNING, PodStatus.STOPPED, PodStatus.TERMINATED})
    mirrored: tuple[str, ...] = MIRRORED

    async def observe(self, cloud: Cloud, cloud_id: str, last: StatusT, look: Look) -> VmRecord:
        return await cloud.call(operations.GET_VM, id=cloud_id)

    async def find(self, cloud: Cloud, name: str, unclaimed: UnclaimedIds) -> SearchResult[VmRecord]:
        """Looks among the ids from webhooks, then in the list, which not every cloud has."""
        await _look_up(cloud, unclaimed)
        if (known := unclaimed.named(name)) is not None:
            try:
                return Found(await cloud.call(operations.GET_VM, id=known))
            except NotFound:
                unclaimed.not_found(known)
        if any(unclaimed.nameless()):
            return Unfinished()
        records = await _listed(cloud)
        if records is None:
            return CannotTell()
        found = by_name(records.items, name, self._may_be_one, complete=records.complete)
        return CannotTell() if isinstance(found, NotSeen) and not self.shown_in(records.items) else found

    def shown_in(self, listed: Iterable[VmRecord]) -> bool:
        """Whether the list of VMs shows this kind at all, so that what it lacks does not exist."""
        return True

    async def living(self, cloud: Cloud, unclaimed: UnclaimedIds) -> Mapping[str, str]:
        await _look_up(cloud, unclaimed)
        records = await _listed(cloud)
        found = () if records is None else filter(self._may_be_one, records.items)
        return dict(unclaimed.names(but=self.others)) | {each.id: each.name for each in found}

    def _may_be_one(self, record: VmRecord) -> bool:
        """Whether it lives, and is not known to be of the other kind."""
        return _lives(record) and record.service_type != self.others

    @abstractmethod
    def capacity(self, obj: Resource[SpecT, StatusT], model_id: str) -> Capacity:
        """The capacity that the spec asks for, on this GPU model."""

    def grown(self, obj: Resource[SpecT, StatusT], observed: VmRecord) -> Capacity:
        """Of the hardware that it has: whoever changes the spec does not change what is paid for."""
        asked = self.capacity(obj, observed.gpu_model_id or "")
        gpus = asked.gpus if observed.gpu_count is None else observed.gpu_count
        return Capacity(observed.gpu_model_id or "", gpus, observed.resource_size or asked.size)

    def untold(self, obj: Resource[SpecT, StatusT], observed: VmRecord) -> Capacity | None:
        """None if the record has the price, which the cloud may leave out."""
        return None if observed.price_per_hour_cents is not None else self.grown(obj, observed)

    def locked(self, observed: VmRecord) -> int | None:
        return observed.price_per_hour_cents

    def stop(self, cloud_id: str) -> Change:
        return power(STOP, lambda cloud: cloud.call(operations.STOP_VM, id=cloud_id))

    def start(self, cloud_id: str) -> Change:
        return power(START, lambda cloud: cloud.call(operations.RESTART_VM, id=cloud_id))

    def restart(self, cloud_id: str) -> Change:
        return power(RESTART, lambda cloud: cloud.call(operations.RESTART_VM, id=cloud_id))

    async def delete(self, cloud: Cloud, cloud_id: str) -> None:
        await cloud.call(operations.TERMINATE_VM, id=cloud_id)

    def of_the_other_kind(self, observed: VmRecord) -> tuple[str, ...]:
        """The difference that no change of the spec can resolve."""
        return (f"kind: it is a {self.others}",) if observed.service_type == self.others else ()

    def visibility(self, observed: VmRecord, *, public: bool) -> tuple[Change, ...]:
        """The change that opens or closes the endpoint."""
        if observed.public in {None, public}:
            return ()
        body = Visibility(public=public)

        async def send(cloud: Cloud) -> None:
            await cloud.call(operations.SET_VM_VISIBILITY, body, id=observed.id)

        return (Change("visibility", Reason.UPDATING, send, to=str(public)),)

    def progress(self, observed: VmRecord) -> Progress:
        return _PROGRESS.get(observed.status, Progress.PENDING)

    def identity(self, observed: VmRecord) -> tuple[str, str]:
        return observed.id, observed.name

    def detail(self, observed: VmRecord) -> str:
        stage = f" ({observed.provisioning_stage})" if observed.provisioning_stage else ""
        reason = f": {observed.status_reason}" if observed.status_reason else ""
        return f"the cloud says {observed.status}{stage}{reason}"

    def reached(self, observed: VmRecord) -> Reached:
        return Reached(observed.endpoint_url or "", observed.id)

    def told(self, obj: Resource[SpecT, StatusT], observed: VmRecord) -> Mapping[str, object]:
        told = {**super().told(obj, observed), "state": observed.status}
        if observed.price_per_hour_cents is None:
            del told["price_per_hour_cents"]  # the last one stays until the catalog's is known
        return told


async def is_gone(cloud: Cloud, cloud_id: str) -> bool:
    """Whether the machine has ended. Raises CloudError."""
    try:
        return not _lives(await cloud.call(operations.GET_VM, id=cloud_id))
    except NotFound:
        return True


async def _look_up(cloud: Cloud, unclaimed: UnclaimedIds) -> None:
    """Learn the names of ids that webhooks named; drops those of other things, which the cloud may refuse."""
    for cloud_id in islice(unclaimed.nameless(), _LOOKUPS):
        try:
            record = await cloud.call(operations.GET_VM, id=cloud_id)
        except NotFound:
            unclaimed.not_found(cloud_id)
        except BadRequest:
            unclaimed.discard(cloud_id)
        else:
            unclaimed.learn(cloud_id, record.name, record.service_type or "")


async def _listed(cloud: Cloud) -> Listing[VmRecord] | None:
    """All machines; None if the cloud has no such list: not every cloud answers an unknown route with 404."""
    try:
        return await listing(cloud, operations.LIST_VMS)
    except (NotFound, BadRequest, Forbidden, Unreadable):
        return None


def _lives(record: VmRecord) -> bool:
    return record.status != PodStatus.TERMINATED
