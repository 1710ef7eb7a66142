"""Objects that stand for cloud resources; pure, except for the async functions."""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Final, TypeAlias

import typer
from pydantic import Field

from relay_cli.failures import Failure, Status
from relay_cli.kubectl import Kubectl, parsed
from relay_operator.api.conditions import ConditionType, Reason
from relay_operator.api.meta import API_VERSION, GROUP, Model, ObjectKey, Resource
from relay_operator.api.references import AccountKind, AccountRef
from relay_operator.api.workload import BILLED, BILLED_EARLY, UNBILLED, Blue, WorkloadStatus

Reference: TypeAlias = Annotated[str, typer.Argument(metavar="KIND/NAME", help="The object, as in gpod/trainer.")]

DEFAULT: Final = AccountRef(kind=AccountKind.CLOUD_ACCOUNT, name="default")
"""The account of an object that names none."""
MACHINES: Final = ("GpuPod", "GpuVm")
"""Kinds whose objects are one machine each, with a shell and a log."""
WORKLOADS: Final = (*MACHINES, "GpuCluster", "ServingDeployment")
"""Kinds whose objects cost something per hour; the others have no price."""
_REFERENCE = re.compile(r"[A-Za-z][A-Za-z0-9.]*/[a-z0-9][-a-z0-9.]*")
_PATIENCE = timedelta(minutes=1)


class CloudSpec(Model):
    """The part of the spec that all kinds share; the rest may come from a later release."""

    account_ref: AccountRef | None = None


class CloudStatus(WorkloadStatus):
    """The status of any kind; fields that only workloads, or kinds with replicas, have are absent for others."""

    replicas: int | None = None
    former: Sequence[Blue] | None = None


class CloudObject(Resource[CloudSpec, CloudStatus]):
    """One object of any managed kind."""

    status: CloudStatus = Field(default_factory=CloudStatus)

    @property
    def account(self) -> AccountRef | None:
        """The account that it was created with, or will be; None if it names none."""
        return self.status.account or self.spec.account_ref

    @property
    def is_in_cloud(self) -> bool:
        """Whether it uses, or is about to use, machines of the cloud."""
        return bool(self.aside) or (self.status.state is not None and self.status.state not in UNBILLED)

    def is_unseen(self, now: datetime) -> bool:
        """Whether no operator has looked at its spec, although it has existed for a while."""
        born = self.metadata.creation_timestamp
        waits = born is not None and now - born > _PATIENCE
        return waits and self.status.observed_generation != self.metadata.generation

    def is_made_with(self, account: ObjectKey) -> bool:
        """Whether it uses this account."""
        used = self.account or DEFAULT
        near = account.namespace in ("", self.metadata.namespace)
        return near and (used.kind, used.name) == (account.kind, account.name)

    @property
    def is_unread(self) -> bool:
        """Whether the cloud has not told the operator of it for a while."""
        return any(
            (one.type, one.reason) == (ConditionType.STALLED, Reason.CLOUD_UNAVAILABLE)
            for one in self.status.conditions
        )

    @property
    def label(self) -> str:
        return f"{self.kind}/{self.metadata.name}"

    @property
    def is_billed(self) -> bool:
        return bool(self.aside) or self._own_is_billed

    @property
    def _own_is_billed(self) -> bool:
        return self.status.state in (BILLED | BILLED_EARLY if self.kind == "GpuCluster" else BILLED)

    @property
    def aside(self) -> Sequence[Blue]:
        """The old resource beside the present one, if it is paid for; a stopped one has no GPUs."""
        return [blue for blue in self.status.former or () if blue.gpus is not None]

    @property
    def cloud_ids(self) -> frozenset[str]:
        """The ids of what it has in the cloud, old ones included."""
        return frozenset(filter(None, (self.status.id, *(old.id for old in self.status.former or ()))))

    @property
    def price_per_hour_cents(self) -> int | None:
        """What is paid for it now, with the old resource, or will be once it is billed; None if not all is known."""
        status = self.status
        own = bool(status.id) and (self._own_is_billed or not self.aside)
        prices = [*([status.price_per_hour_cents] if own else []), *(blue.price_per_hour_cents for blue in self.aside)]
        known = [price for price in prices if price is not None]
        return sum(known) if known and len(known) == len(prices) else None


async def workloads(kubectl: Kubectl, *, everywhere: bool) -> list[CloudObject]:
    """Pods, VMs, clusters and serving deployments, by namespace and name. Raises Failure."""
    found = await kubectl.list([f"{kind.lower()}s.{GROUP}" for kind in WORKLOADS], everywhere=everywhere)
    read = (parsed(CloudObject, raw) for raw in found)
    return sorted(read, key=lambda one: (one.metadata.namespace, one.metadata.name, one.kind))


def checked(reference: str) -> str:
    """The reference, if it is exactly `KIND/NAME`, which kubectl cannot misread. Raises Failure. Pure."""
    if not _REFERENCE.fullmatch(reference):
        raise Failure(f"{reference!r} does not name an object: write KIND/NAME, as in gpod/trainer", Status.MISUSED)
    return reference


async def one(kubectl: Kubectl, reference: str) -> CloudObject:
    """The object for a reference such as `gpod/trainer`. Raises Failure."""
    raw = await kubectl.get(checked(reference))
    if raw.get("apiVersion") != API_VERSION:
        raise Failure(f"{reference} is a {raw.get('kind')}, not an object of {GROUP}: write KIND/NAME", Status.MISUSED)
    return parsed(CloudObject, raw)
