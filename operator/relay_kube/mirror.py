"""What a cluster has of a kind, as it was a moment ago: a list, then a watch, and so on."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Generic, NoReturn, TypeVar

from pydantic import JsonValue

from relay_kube.kube import JsonObject, Kube, KubeError, ResourceType

_log = logging.getLogger(__name__)

_T = TypeVar("_T")
_Key = tuple[str, str]

_WATCHES: Final = 10
"""Watches, of a minute each, before a list repairs what they may have missed."""
_PAUSES: Final = (0.5, 30.0)
"""Seconds before the next list after a failure: at first, and at most."""


@dataclass(frozen=True, slots=True)
class _Kept(Generic[_T]):
    uid: str
    version: int
    value: _T


class Mirror(Generic[_T]):
    """The objects of a kind, of all namespaces, as `read` has them; what it cannot read (ValueError) is not there.

    `changed` is told of every object that came or changed, as it is, and of every one that went, as it was last.
    """

    def __init__(
        self,
        kube: Kube,
        kind: ResourceType,
        read: Callable[[JsonObject], _T],
        changed: Callable[[_T], None],
        *,
        field_selector: str = "",
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._kube = kube
        self._kind = kind
        self._read = read
        self._changed = changed
        self._field_selector = field_selector
        self._sleep = sleep
        self._kept: dict[_Key, _Kept[_T]] = {}
        self._passed = 0  # the version up to which the API server has told everything
        self._listed = asyncio.Event()

    def __iter__(self) -> Iterator[_T]:
        return iter([kept.value for kept in self._kept.values()])

    def get(self, namespace: str, name: str) -> _T | None:
        """The object of this name; `namespace` is empty for kinds that are in none."""
        kept = self._kept.get((namespace, name))
        return None if kept is None else kept.value

    async def listed(self) -> None:
        """Return once everything was read."""
        await self._listed.wait()

    def wrote(self, answer: JsonObject) -> None:
        """Know at once what an own write made; what the watch is past, it has told of already, its end included."""
        if _version_of(answer) > self._passed:
            self._put(answer)

    async def run(self) -> NoReturn:
        """List and watch until cancelled; while the API server is away, what is known stays."""
        first, most = _PAUSES
        pause = first
        while True:
            try:
                await self._list()
                pause = first
                for _ in range(_WATCHES):
                    await self._watch()
            except KubeError as error:
                _log.warning("%s are not heard of for %g s: %s", self._kind.plural, pause, error)
                await self._sleep(pause)
                pause = min(2 * pause, most)

    async def _list(self) -> None:
        present: set[_Key] = set()
        version = 0
        async for items, as_of in self._kube.pages_as_of(self._kind, field_selector=self._field_selector):
            version = int(as_of)
            for raw in items:
                present.add(_key_of(raw))
                self._put(raw)
        for key in [key for key, kept in self._kept.items() if key not in present and kept.version <= version]:
            self._drop(key)
        self._passed = version
        self._listed.set()

    async def _watch(self) -> None:
        async for event in self._kube.watch(self._kind, str(self._passed), field_selector=self._field_selector):
            raw = event["object"]
            assert isinstance(raw, dict), "as the API server's protocol has it"
            self._passed = _version_of(raw)
            match event["type"]:
                case "DELETED":
                    self._gone(raw)
                case "ADDED" | "MODIFIED":
                    self._put(raw)

    def _put(self, raw: JsonObject) -> None:
        key, uid, version = _key_of(raw), _uid_of(raw), _version_of(raw)
        known = self._kept.get(key)
        if known is not None and known.version >= version:
            return
        if known is not None and known.uid != uid:
            self._drop(key)
        try:
            value = self._read(raw)
        except ValueError as error:
            _log.warning("%s/%s cannot be read: %s", *key, error)
            return
        self._kept[key] = _Kept(uid, version, value)
        self._changed(value)

    def _gone(self, raw: JsonObject) -> None:
        known = self._kept.get(_key_of(raw))
        if known is not None and known.uid == _uid_of(raw):
            self._drop(_key_of(raw))

    def _drop(self, key: _Key) -> None:
        self._changed(self._kept.pop(key).value)


def _metadata(raw: JsonObject) -> Mapping[str, JsonValue]:
    metadata = raw["metadata"]
    assert isinstance(metadata, dict), "every object has it"
    return metadata


def _key_of(raw: JsonObject) -> _Key:
    metadata = _metadata(raw)
    return str(metadata.get("namespace") or ""), str(metadata["name"])


def _uid_of(raw: JsonObject) -> str:
    return str(_metadata(raw)["uid"])


def _version_of(raw: JsonObject) -> int:
    return int(str(_metadata(raw)["resourceVersion"]))
