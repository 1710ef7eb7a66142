"""The objects that run in the cloud, as their statuses tell. Pure, but for `read`."""

from collections.abc import Mapping
from typing import Final

from pydantic import Field

from relay_cli.kubectl import Kubectl, parsed
from relay_operator.api.meta import GROUP, Resource
from relay_operator.api.references import AccountKind, AccountRef
from relay_operator.api.workload import WorkloadSpec, WorkloadStatus

PLURALS: Final[Mapping[str, str]] = {"GpuPod": "gpupods", "GpuVm": "gpuvms", "GpuCluster": "gpuclusters"}
"""Of each kind of workload, the plural in the API."""
_ENDED = frozenset({"stopped", "terminated", "failed"})
_BILLED = frozenset({"running", "degraded"})


class Status(WorkloadStatus):
    """That of any workload; replicas are a cluster's."""

    replicas: int | None = None


class Workload(Resource[WorkloadSpec, Status]):
    """One object."""

    status: Status = Field(default_factory=Status)

    @property
    def account(self) -> AccountRef:
        """The one that it was made with, or is to be."""
        unnamed = AccountRef(kind=AccountKind.CLOUD_ACCOUNT, name="default")
        return self.status.account or self.spec.account_ref or unnamed

    @property
    def is_in_cloud(self) -> bool:
        """Whether it takes, or is about to take, the cloud's machines."""
        return self.status.state is not None and self.status.state not in _ENDED

    @property
    def is_billed(self) -> bool:
        return self.status.state in _BILLED


async def read(kubectl: Kubectl, *, everywhere: bool) -> list[Workload]:
    """All of them, by namespace and name. Raises Failure."""
    found = await kubectl.list([f"{plural}.{GROUP}" for plural in PLURALS.values()], everywhere=everywhere)
    all_of_them = (parsed(Workload, raw) for raw in found)
    return sorted(all_of_them, key=lambda workload: (workload.key.namespace, workload.key.name, workload.kind))
