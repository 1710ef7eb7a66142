"""Which namespaces an account admits, by their labels."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pydantic import ValidationError

from relay_kube.errors import NotFound
from relay_kube.kube import NAMESPACES, Kube
from relay_operator.api.cloudaccount import ClusterCloudAccount, LabelOperator, LabelRequirement, LabelSelector
from relay_operator.engine.manifests import part, texts

_LABELS_SECONDS = 60.0


def admits(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """Whether the selector admits a namespace with these labels; an empty selector admits all, as in Kubernetes."""
    exact = (selector.match_labels or {}).items()
    return all(labels.get(key) == value for key, value in exact) and all(
        _holds(requirement, labels) for requirement in selector.match_expressions or ()
    )


def admits_all(selector: LabelSelector) -> bool:
    """Whether the selector admits every namespace, so that no labels need to be read."""
    return not selector.match_labels and not selector.match_expressions


def _holds(requirement: LabelRequirement, labels: Mapping[str, str]) -> bool:
    value, listed = labels.get(requirement.key), requirement.values or ()
    match requirement.operator:
        case LabelOperator.IN:
            return value in listed
        case LabelOperator.NOT_IN:
            return value not in listed  # an absent label is never listed
        case LabelOperator.EXISTS:
            return value is not None
        case LabelOperator.DOES_NOT_EXIST:
            return value is None


@dataclass(slots=True)
class Admission:
    """Decides with namespace labels that are at most a minute old."""

    kube: Kube
    clock: Callable[[], float]
    _labels: dict[str, tuple[float, Mapping[str, str]]] = field(default_factory=dict)

    async def admitted(self, account: bytes, namespace: str) -> bool:
        """Whether the ClusterCloudAccount, given as JSON, admits the namespace; an unreadable one admits none.

        Raises KubeError.
        """
        try:
            selector = ClusterCloudAccount.model_validate_json(account).spec.allowed_namespaces
        except ValidationError:
            return False
        return admits_all(selector) or admits(selector, await self._labels_of(namespace))

    async def _labels_of(self, namespace: str) -> Mapping[str, str]:
        read_at, labels = self._labels.get(namespace, (float("-inf"), {}))
        if self.clock() - read_at > _LABELS_SECONDS:
            labels = await self._read(namespace)
            self._keep(namespace, labels)
        return labels

    def _keep(self, namespace: str, labels: Mapping[str, str]) -> None:
        """Keep the labels in the order of reading, so that the expired ones come first and are dropped."""
        now = self.clock()
        self._labels.pop(namespace, None)
        self._labels[namespace] = (now, labels)
        while now - next(iter(self._labels.values()))[0] > _LABELS_SECONDS:
            del self._labels[next(iter(self._labels))]

    async def _read(self, namespace: str) -> Mapping[str, str]:
        try:
            found = await self.kube.get(NAMESPACES, None, namespace)
        except NotFound:
            return {}
        return texts(part(found, "metadata", "labels"), encoded=False)
