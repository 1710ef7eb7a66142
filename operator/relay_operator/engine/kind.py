"""A kind in one line; everything that needs all kinds reads these lines."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from relay_kube.kube import ResourceType
from relay_operator.api.definition import Definition
from relay_operator.api.meta import GROUP, VERSION
from relay_operator.engine.passes import KindReconciler

PartsT = TypeVar("PartsT")


@dataclass(frozen=True, slots=True)
class Kind(Generic[PartsT]):
    """What the operator knows of a kind; `PartsT` is what flows are built from."""

    definition: Definition
    reconciler: Callable[[PartsT], KindReconciler]
    uses_account: bool = True
    """Whether its objects use an account, and hold it until their status says `cleared`."""
    shared_by_default: bool = False
    """Whether a ClusterCloudAccount without `allowedKinds` serves the kind.

    Only if its objects give no access to what others have in the organization: workloads and batches give none, keys
    and members do.
    """
    gives_way: bool = False
    """Whether objects of other kinds go first; all kinds that give way together have a share of the workers."""
    assumed: bool = False
    """Whether the cloud's description lacks its calls: then it is off until `RELAY_ASSUMED_KINDS` names it."""
    wakes_with_owned: bool = False
    """Whether an object has a pass when another that it controls appears, is deleted or finishes."""

    @property
    def name(self) -> str:
        return self.definition.kind


def resource_type(definition: Definition) -> ResourceType:
    """The kind's type in the Kubernetes API."""
    return ResourceType(definition.plural, GROUP, VERSION, definition.namespaced)
