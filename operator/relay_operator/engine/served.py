"""Whether the API server keeps what this release writes: compares its CRDs with those that this release needs."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from relay_kube.errors import KubeError
from relay_kube.kube import Kube
from relay_operator.api.conditions import Reason
from relay_operator.api.meta import GROUP, VERSION, ObjectKey
from relay_operator.api.schema import PRESERVED
from relay_operator.engine.cache import Cache
from relay_operator.engine.conditions import some
from relay_operator.engine.manifests import part
from relay_operator.engine.queue import Priority, Queue

logger = logging.getLogger(__name__)

_SECONDS = 5.0
_KIND = "x-kubernetes-group-version-kind"


def dropped(needed: Mapping[str, JsonValue], served: Mapping[str, JsonValue], where: str = "") -> Iterator[str]:
    """Yields the fields of `needed` that an API server with `served` prunes, without the fields inside them."""
    if served.get(PRESERVED) is True:
        return
    kept, more = part(served, "properties"), "additionalProperties"
    for name in part(needed, "properties"):
        path = f"{where}.{name}" if where else name
        if name in kept:
            yield from dropped(part(needed, "properties", name), part(kept, name), path)
        elif not served.get(more):
            yield path
    for inner in {"items", more} & needed.keys():
        yield from dropped(part(needed, inner), part(served, inner), f"{where}[]")


@dataclass(slots=True)
class ServedKinds:
    """What is known of the cluster's CRDs; until they have been read, they count as up to date."""

    needed: Callable[[], Mapping[str, tuple[str, Mapping[str, JsonValue]]]] = dict
    """Returns the name of the CRD and the fields of its objects, by kind; called for each comparison."""
    remedy: str = ""
    """The command that updates the CRDs."""
    outdated: str = ""
    """Why nothing may be created, and what to do; empty if nothing is wrong.

    One outdated CRD is enough: what is created for a pod is also recorded on accounts.
    """
    doubted: bool = False
    """Whether the API server dropped something since the CRDs were compared."""

    def doubt(self) -> None:
        """Note that the API server dropped something of a status: the CRDs are to be compared again."""
        self.doubted = True

    async def compare(self, kube: Kube, cache: Cache, queue: Queue[ObjectKey]) -> None:
        """Compare the CRDs, and wake the objects that waited for this; if they cannot be read, nothing is held up."""
        self.doubted = False
        try:
            async with asyncio.timeout(_SECONDS):
                document = await kube.openapi(GROUP, VERSION)
        except (KubeError, TimeoutError) as error:
            logger.info("the schemas that the API server serves cannot be read, so nothing is said of them: %s", error)
            return
        before = self.outdated
        self.learn(document)
        if self.outdated != before:
            logger.warning("%s", self.outdated or "the CRDs are up to date")
            for key, entry in cache.items():
                if entry.reason == Reason.CRD_OUTDATED:
                    queue.add(key, Priority.CHANGE)

    def learn(self, document: Mapping[str, JsonValue]) -> None:
        """Compare with the OpenAPI v3 document of our API group."""
        served = dict(_schemas(document))
        lost = {
            name: fields
            for kind, (name, needed) in self.needed().items()
            if kind in served and (fields := list(dropped(needed, served[kind])))
        }
        self.outdated = self._message(lost) if lost else ""

    def _message(self, lost: Mapping[str, list[str]]) -> str:
        name, fields = next(iter(lost.items()))
        others = f", and so are {', '.join(list(lost)[1:])}" if len(lost) > 1 else ""
        return (
            f"the CRD {name} of this cluster is older than this release{others}: the API server would drop "
            f"{some(fields)}, so nothing is created. To bring all CRDs up to date, run: {self.remedy}"
        )


def _schemas(document: Mapping[str, JsonValue]) -> Iterator[tuple[str, Mapping[str, JsonValue]]]:
    for schema in part(document, "components", "schemas").values():
        told = schema.get(_KIND) if isinstance(schema, dict) else None
        for each in told if isinstance(told, list) else ():
            if isinstance(schema, dict) and isinstance(each, dict) and _ours(each):
                yield str(each.get("kind")), schema


def _ours(told: Mapping[str, JsonValue]) -> bool:
    return (told.get("group"), told.get("version")) == (GROUP, VERSION)
