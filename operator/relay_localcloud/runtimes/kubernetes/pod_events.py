"""The Events about the Pods of a cluster, found by the uid of the Pod."""

from collections.abc import Callable, Iterable
from typing import Final

from pydantic import Field

from relay_kube.kube import Kube, ResourceType
from relay_kube.mirror import Mirror
from relay_localcloud.runtimes.kubernetes.observed import Event, Observed

EVENTS: Final = ResourceType("events")


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
        self._of_pods: dict[str, dict[_Named, PodEvent]] = {}

    def of(self, uid: str) -> Iterable[Event]:
        """The events of one Pod."""
        return self._of_pods.get(uid, {}).values()

    def _moved(self, event: PodEvent) -> None:
        of_pod = self._of_pods.setdefault(event.involved.uid, {})
        if self.mirror.get(event.metadata.namespace, event.metadata.name) is not None:
            of_pod[event.metadata] = event
        else:
            of_pod.pop(event.metadata, None)
        if not of_pod:
            del self._of_pods[event.involved.uid]
        self._changed(event)
