"""The events that the demo prints: states of objects, calls of the operator to the cloud, webhooks of the cloud."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from textwrap import shorten
from typing import TYPE_CHECKING

from tests.support.kube import RESOURCES, KubeError, Manifest
from tests.support.manifests import condition, up_to_date

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hack.demo.stage import Stage
    from tests.support.localcloud import Json

_DONE = {"InferenceBatch": "Complete"}
"""The condition that marks an object as finished, for kinds whose work ends; for every other kind it is Ready."""
SHOWN = tuple(kind for kind, resource in RESOURCES.items() if resource.prefix.endswith("gpurelay.dev/v1alpha1"))


class Source(Enum):
    """The origin of an event; the value is the word that is printed."""

    OBJECT = "kubernetes"
    CALL = "operator"
    WEBHOOK = "cloud"


class Tone(Enum):
    """Whether an event is good news, bad news, or neither."""

    PLAIN = "plain"
    GOOD = "good"
    BAD = "bad"


@dataclass(frozen=True)
class Happening:
    """One event, which the demo prints as one line."""

    source: Source
    subject: str
    text: str
    tone: Tone = Tone.PLAIN


class Watcher:
    """Collects what happened since the last look."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._told: dict[str, Happening] = {}
        self._request = 0
        self._deliveries: set[str] = set()

    async def look(self) -> list[Happening]:
        """Returns new events, causes first: calls to the cloud, then webhooks, then changed or deleted objects."""
        return [*await self._calls(), *await self._webhooks(), *await self._objects()]

    async def _calls(self) -> list[Happening]:
        items = await self._stage.cloud.control.requests(after=self._request)
        self._request = max([self._request, *(item["seq"] for item in items)])
        return [_call(item) for item in items if item["method"] != "GET"]

    async def _webhooks(self) -> list[Happening]:
        items = await self._stage.cloud.control.deliveries()
        fresh = [item for item in items if item["id"] not in self._deliveries]
        self._deliveries.update(item["id"] for item in fresh)
        return [_webhook(item) for item in sorted(fresh, key=lambda item: str(item["requestedAt"]))]

    async def _objects(self) -> list[Happening]:
        found = {f"{item['kind']} {item['metadata']['name']}": item for item in await objects(self._stage)}
        happenings = [said for key, item in found.items() if (said := _object(key, item)) != self._told.get(key)]
        gone = [Happening(Source.OBJECT, key, "gone") for key in self._told if key not in found]
        self._told = {key: _object(key, item) for key, item in found.items()}
        return happenings + gone


async def objects(stage: Stage) -> list[Manifest]:
    """Returns every object of the operator's kinds in the demo's namespace; kinds without a CRD are skipped."""
    found: list[Manifest] = []
    for kind in SHOWN:
        try:
            found += [item | {"kind": kind} for item in await stage.kube.list(kind)]
        except KubeError as refused:
            if refused.status != 404:
                raise
    return found


def unfinished(items: Iterable[Manifest]) -> list[str]:
    """Returns a sentence with the reason for each object that is neither Ready nor Complete."""
    return [f"{item['kind']} {item['metadata']['name']}: {_why(item)}" for item in items if not _finished(item)]


def failed(item: Manifest) -> bool:
    """Whether the object has the condition Failed, so that it will never be Complete."""
    return condition(item, "Failed").get("status") == "True"


def _finished(item: Manifest) -> bool:
    return condition(item, _done(item)).get("status") == "True" and up_to_date(item)


def _done(item: Manifest) -> str:
    return _DONE.get(item["kind"], "Ready")


def _why(item: Manifest) -> str:
    for kind in ("Stalled", "Reconciling", "Ready"):
        found = condition(item, kind)
        if found:
            return f"{found.get('reason', kind)}: {found.get('message', '')}".strip(": ")
    return "applied; the operator has not looked at it yet"


def _object(key: str, item: Manifest) -> Happening:
    status = item.get("status") or {}
    if _finished(item):
        facts = _answers(status) if "requestCounts" in status else _resources(status)
        return Happening(Source.OBJECT, key, "  ".join([_done(item), *filter(None, facts)]), Tone.GOOD)
    stalled = condition(item, "Stalled").get("status") == "True"
    deleting = "deleting, " if item["metadata"].get("deletionTimestamp") else ""
    if stalled:
        return Happening(Source.OBJECT, key, deleting + _why(item), Tone.BAD)
    return Happening(Source.OBJECT, key, deleting + shorten(_why(item), width=90, placeholder=" ..."))


def _resources(status: Json) -> list[str | None]:
    return [status.get("state"), _replicas(status), _price(status), status.get("endpointUrl")]


def _answers(status: Json) -> list[str | None]:
    counts, output = status["requestCounts"], status.get("output") or {}
    return [f"{counts['completed']} of {counts['total']} answered", status.get("cost"), output.get("answers")]


def _replicas(status: Json) -> str:
    return f"{status.get('readyReplicas', 0)}/{status['replicas']} replicas" if "replicas" in status else ""


def _price(status: Json) -> str:
    cents = status.get("pricePerHourCents")
    return f"${cents / 100:.2f}/h" if cents else ""


def _call(item: Json) -> Happening:
    status = item["status"] or "cut off"
    tone = Tone.PLAIN if str(status).startswith("2") else Tone.BAD
    lost = ", but the reply was lost" if item["faultId"] else ""
    return Happening(Source.CALL, "calls the cloud", f"{item['method']} {item['path']} → {status}{lost}", tone)


def _webhook(item: Json) -> Happening:
    status = item.get("statusCode") or item.get("error") or "no answer"
    tone = Tone.PLAIN if str(status).startswith("2") else Tone.BAD
    return Happening(Source.WEBHOOK, "sends a signed webhook", f"{item['eventType']} → {status}", tone)
