"""The Events about the Pods of a cluster, found by the namespace and the uid of the Pod.

Whoever may write Events anywhere may name any uid in them; those that count are in the namespace of the Pod.
"""

from collections.abc import Callable, Iterable
from typing import Final

from pydantic import Field

from relay_kube.kube import Kube, ResourceType
from relay_kube.mirror import Mirror
from relay_localcloud.runtimes.kubernetes.observed import Event, Observed

EVENTS: Final = ResourceType("events")
_Pod = tuple[str, str]


class _Named(Observed):
    namespace: str = ""
    name: str = ""


class _Involved(_Named):
    uid: str = ""


class PodEvent(Event):
    """An event, with the Pod that it is about."""

    metadata: _Named
    involved: _Involved = Field(default=_Involved(), alias="involvedObject")


class PodEvents:
    """A mirror of the Events about Pods; `changed` gets each that appears, changes or disappears."""

    def __init__(self, kube: Kube, changed: Callable[[PodEvent], None]) -> None:
        selector = "involvedObject.kind=Pod"
        self.mirror = Mirror(kube, EVENTS, PodEvent.model_validate, self._moved, field_selector=selector)
        self._changed = changed
        self._of_pods: dict[_Pod, dict[_Named, PodEvent]] = {}
        self._about: dict[_Named, _Pod] = {}

    def of(self, namespace: str, uid: str) -> Iterable[Event]:
        """The events of one Pod."""
        return self._of_pods.get((namespace, uid), {}).values()

    def _moved(self, event: PodEvent) -> None:
        self._forget(event.metadata)
        if self.mirror.get(event.metadata.namespace, event.metadata.name) is not None:
            pod = self._about[event.metadata] = event.metadata.namespace, event.involved.uid
            self._of_pods.setdefault(pod, {})[event.metadata] = event
        self._changed(event)

    def _forget(self, named: _Named) -> None:
        pod = self._about.pop(named, None)
        if pod is not None:
            del self._of_pods[pod][named]
            if not self._of_pods[pod]:
                del self._of_pods[pod]
