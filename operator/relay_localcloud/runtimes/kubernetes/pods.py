"""The Pods of a cluster, found by the Node that they are on."""

from collections.abc import Callable, Iterable

from relay_kube.kube import PODS, Kube
from relay_kube.mirror import Mirror
from relay_localcloud.runtimes.kubernetes.observed import Pod


class Pods:
    """A mirror of the Pods; `changed` gets each that appears, changes or disappears."""

    def __init__(self, kube: Kube, changed: Callable[[Pod], None]) -> None:
        self.mirror = Mirror(kube, PODS, Pod.model_validate, self._moved)
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
