"""A kind in one line; everything that has to know of all kinds is read from these lines."""

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
    """What the operator knows of a kind; `PartsT` is what all flows are made from."""

    definition: Definition
    reconciler: Callable[[PartsT], KindReconciler]
    uses_account: bool = True
    """Whether its objects hold the account that they are made with, until their status says `cleared`."""
    shared_by_default: bool = False
    """Whether a ClusterCloudAccount without `allowedKinds` serves it: only if it opens nothing that others have in the
    organization, as workloads and batches do not, but keys and members do."""
    worker_share: float = 1.0
    """Of the workers, at most so many have its objects at a time; what waits for less has their turn first."""
    assumed: bool = False
    """Whether the cloud's description does not show its calls: it is off until `RELAY_ASSUMED_KINDS` names it."""
    wakes_with_owned: bool = False
    """Whether an object has a pass when another that it controls came, went or finished."""

    @property
    def name(self) -> str:
        return self.definition.kind


def resource_type(definition: Definition) -> ResourceType:
    """Where a kind's objects live."""
    return ResourceType(definition.plural, GROUP, VERSION, definition.namespaced)
