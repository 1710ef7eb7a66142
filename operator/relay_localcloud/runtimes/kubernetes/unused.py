"""Says in the log which Nodes with GPUs the cloud does not use, and why."""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from relay_localcloud.runtimes.kubernetes.nodes import NodeFact, NodeSeen, NotOffered
from relay_localcloud.runtimes.kubernetes.observed import Node
from relay_localcloud.runtimes.kubernetes.quantities import amount

_log = logging.getLogger(__name__)

_GPU: Final = "/gpu"
"""How the resource of a vendor's whole GPUs ends."""


@dataclass(frozen=True, slots=True)
class Meant:
    """What an administrator means for the cloud: Nodes with these labels, and these resources of them."""

    selector: Mapping[str, str]
    resources: Collection[str]

    def has(self, node: Node) -> bool:
        """Whether a Node is meant for the cloud and has GPUs."""
        has_labels = self.selector.items() <= node.metadata.labels.items()
        return has_labels and any(
            (name.endswith(_GPU) or name in self.resources) and amount(many) > 0
            for name, many in node.status.allocatable.items()
        )


def reasons(
    nodes: Iterable[Node], facts: Iterable[NodeFact], known: Collection[str], meant: Meant
) -> Iterator[tuple[str, str]]:
    """Yields the Nodes that the cloud could use and does not, with the reason; `known` are those that it has used."""
    with_gpus = {node.metadata.name for node in nodes if meant.has(node)}
    for fact in facts:
        match fact:
            case NotOffered(name, words) if name in with_gpus:
                yield name, words
            case NodeSeen(machine, model_id) if not machine.gpu_count and machine.name not in known:
                words = f"its device plugin offers no {machine.resource}, or Pods of others have all"
                yield machine.name, f"It has the labels of {model_id}, but {words}."
            case _:
                pass


class Unused:
    """Says each reason once, and again if it returns."""

    def __init__(self, meant: Meant) -> None:
        self._meant = meant
        self._said: Mapping[str, str] = {}

    def say(self, nodes: Iterable[Node], facts: Iterable[NodeFact], known: Collection[str]) -> None:
        """Log the reasons that are new; the arguments are those of `reasons`."""
        now = dict(reasons(nodes, facts, known, self._meant))
        for name, words in now.items():
            if self._said.get(name) != words:
                _log.info("The cloud does not use the Node %s. %s", name, words)
        self._said = now
