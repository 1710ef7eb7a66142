"""Cordons the Nodes that their owners hold through the API, and lifts these cordons once the holds end.

The hold is in the row, and an annotation of the Node says that this cloud cordoned it: nothing else is kept, so that a
kill at any moment loses nothing.
"""

import asyncio
import logging
from collections.abc import Collection
from typing import Final, NoReturn

from relay_kube.errors import Conflict, KubeError, NotFound, Refused
from relay_kube.kube import JsonObject, Kube, ResourceType
from relay_kube.mirror import Mirror
from relay_localcloud.runtimes.kubernetes.names import CORDONED_BY
from relay_localcloud.runtimes.kubernetes.nodes import is_marked
from relay_localcloud.runtimes.kubernetes.observed import Node

_log = logging.getLogger(__name__)

NODES: Final = ResourceType("nodes", namespaced=False)
_REFUSED: Final = (
    "The Node %s does not follow the hold of its owner, since the cloud may not cordon and uncordon Nodes. Give its "
    "account the right to patch them. The cloud places nothing on a held node in any case. The API server says: %s"
)
"""Logged once, until a cordon is written."""


def change(node: Node, instance: str, *, is_held: bool) -> JsonObject | None:
    """The merge patch by which a Node follows the hold of its owner; None if it does, or others cordoned it.

    A Node that somebody uncordoned during the hold stays uncordoned: its annotation tells that it was cordoned for it.
    """
    is_ours = is_marked(node, instance)
    if is_held == is_ours or (is_held and node.spec.unschedulable):
        return None
    mark = instance if is_held else None
    # Whoever cordoned the Node since it was looked at has another version, so their cordon does not become ours.
    metadata: JsonObject = {"resourceVersion": node.metadata.resource_version, "annotations": {CORDONED_BY: mark}}
    return {"metadata": metadata, "spec": {"unschedulable": is_held or None}}


class Cordons:
    """Writes the cordons of a cluster's Nodes, whose mirror is `nodes`."""

    def __init__(self, kube: Kube, nodes: Mirror[Node], instance: str) -> None:
        self._kube = kube
        self._nodes = nodes
        self._instance = instance
        self._held: Collection[str] = ()
        self._wake = asyncio.Event()
        self._is_refused = False

    def want(self, held: Collection[str]) -> None:
        """Compare all Nodes; those with the names `held` are to be cordoned."""
        self._held = held
        self._wake.set()

    async def run(self) -> NoReturn:
        """Write what is wanted until cancelled; what fails is written when all are compared again."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            for node in self._nodes:
                name = node.metadata.name
                patch = change(node, self._instance, is_held=name in self._held)
                if patch is not None:
                    await self._write(name, patch)

    async def _write(self, name: str, patch: JsonObject) -> None:
        try:
            self._nodes.wrote(await self._kube.patch(NODES, None, name, patch))
        except (Conflict, NotFound):
            return  # it changed, so that it is looked at again
        except Refused as error:
            if not self._is_refused:
                _log.warning(_REFUSED, name, error)
            self._is_refused = True
        except KubeError as error:
            _log.info("the cordon of the Node %s: %s; it is tried again", name, error)
        else:
            self._is_refused = False
