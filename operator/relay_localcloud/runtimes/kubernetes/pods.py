"""The Pods of a cluster, found by the Node that they are on."""

import logging
from collections.abc import Callable, Iterable

from pydantic import JsonValue, ValidationError

from relay_kube.kube import PODS, JsonObject, Kube
from relay_kube.mirror import Mirror
from relay_localcloud.runtimes.kubernetes.observed import Pod

_log = logging.getLogger(__name__)


class Pods:
    """A mirror of the Pods; `changed` gets each that appears, changes or disappears."""

    def __init__(self, kube: Kube, changed: Callable[[Pod], None]) -> None:
        self.mirror = Mirror(kube, PODS, read, self._moved)
        self._changed = changed
        self._on_nodes: dict[str, dict[str, Pod]] = {}

    def on(self, node: str) -> Iterable[Pod]:
        """The Pods on a Node, those that ended too."""
        return self._on_nodes.get(node, {}).values()

    def _moved(self, pod: Pod) -> None:
        node = pod.spec.node_name
        if node is not None:
            self._place(node, pod)
        self._changed(pod)

    def _place(self, node: str, pod: Pod) -> None:
        on_node = self._on_nodes.setdefault(node, {})
        if self.mirror.get(pod.metadata.namespace, pod.metadata.name) is not None:
            on_node[pod.metadata.uid] = pod
        else:
            on_node.pop(pod.metadata.uid, None)
        if not on_node:
            del self._on_nodes[node]


def read(raw: JsonObject) -> Pod:
    """A Pod; of one that cannot be read, as `relay_kube.nesting` cuts those that are full of lists, what is certain.

    A Pod that runs and is not seen could neither be ended nor keep its GPUs from being sold again.
    """
    try:
        return Pod.model_validate(raw)
    except ValidationError as error:
        _log.warning("of a Pod, only its metadata, node and phase can be read: %s", error)
        certain = {"spec": _only("nodeName", raw.get("spec")), "status": _only("phase", raw.get("status"))}
        return Pod.model_validate({"metadata": raw["metadata"], **certain})


def _only(name: str, fields: JsonValue) -> JsonObject:
    return {name: fields[name]} if isinstance(fields, dict) and name in fields else {}
