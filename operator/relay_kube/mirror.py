"""A copy of all objects of a kind, kept up to date by a list, watches, the next list, and so on."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Generic, NoReturn, TypeVar

from pydantic import JsonValue

from relay_kube.errors import KubeError, Unavailable
from relay_kube.kube import JsonObject, Kube, ResourceType

_log = logging.getLogger(__name__)

_T = TypeVar("_T")
_Key = tuple[str, str]

_WATCHES: Final = 10
"""How many watches, of a minute each, follow a list; the next list repairs what they may have missed."""
_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 30.0
"""Seconds before the next list after a failure; the pause doubles until a watch tells something."""
_SHORTEST_WATCH: Final = 1.0
"""A watch that tells nothing and ends within this many seconds is a failure: others would follow without a pause."""


@dataclass(frozen=True, slots=True)
class _Kept(Generic[_T]):
    uid: str
    version: int
    value: _T


class Mirror(Generic[_T]):
    """The objects of a kind in all namespaces, as `read` returns them.

    An object that `read` rejects (ValueError) is left out, but an earlier version of it, if there was one, stays.
    `changed` gets every object that appeared or changed, in its new version, and each that disappeared, in its last.
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
        self._passed = 0  # the resourceVersion up to which everything was received
        self._pause = _FIRST_PAUSE
        self._listed = asyncio.Event()
        self._heard_at = time.monotonic()
        self._missing_since: float | None = None

    def __iter__(self) -> Iterator[_T]:
        return iter([kept.value for kept in self._kept.values()])

    def get(self, namespace: str, name: str) -> _T | None:
        """The object of this name, or None; `namespace` is empty for kinds that are not namespaced."""
        kept = self._kept.get((namespace, name))
        return None if kept is None else kept.value

    async def listed(self) -> None:
        """Return once the first list is complete."""
        await self._listed.wait()

    @property
    def is_listed(self) -> bool:
        """Whether the first list is complete."""
        return self._listed.is_set()

    @property
    def unheard_seconds(self) -> float:
        """The time since the API server last answered a list, or sent an event or the end of a watch."""
        return time.monotonic() - self._heard_at

    @property
    def missing_since(self) -> float | None:
        """While `changed` gets what a list lacks: when the API server was last heard before, by time.monotonic().

        None at any other time. No watch told the end of such an object, which came at some time after that.
        """
        return self._missing_since

    def wrote(self, answer: JsonObject) -> None:
        """Apply the answer to an own write at once, unless the watch is past it and perhaps past its deletion."""
        if _version_of(answer) > self._passed:
            self._put(answer)

    async def run(self) -> NoReturn:
        """List and watch until cancelled; while the API server cannot be reached, the known objects stay."""
        while True:
            try:
                await self._list()
                for _ in range(_WATCHES):
                    await self._watch()
            except KubeError as error:
                _log.warning("%s are not heard of for %g s: %s", self._kind.plural, self._pause, error)
                await self._sleep(self._pause)
                self._pause = min(2 * self._pause, _LONGEST_PAUSE)

    async def _list(self) -> None:
        """Believe a list, even if it is older than what was known: then the API server's data were restored."""
        before, present, version = dict(self._kept), set[_Key](), 0
        async for items, as_of in self._kube.pages_as_of(self._kind, field_selector=self._field_selector):
            if not as_of.isdecimal():
                raise Unavailable(0, "Unreadable", f"list of {self._kind.plural}: the answer has no resourceVersion")
            version = int(as_of)
            for raw in items:
                key = _key_of(raw)
                present.add(key)
                known = before.get(key)
                self._put(raw, restored=known is not None and self._kept.get(key) is known)
        self._missing_since = self._heard_at
        for key, kept in list(self._kept.items()):
            if key not in present and (kept is before.get(key) or kept.version <= version):
                self._drop(key)
        self._missing_since = None
        self._passed = version
        self._heard_at = time.monotonic()
        self._listed.set()

    async def _watch(self) -> None:
        began, told = time.monotonic(), False
        async for event in self._kube.watch(self._kind, str(self._passed), field_selector=self._field_selector):
            raw = event["object"]
            assert isinstance(raw, dict), "as the API server's protocol has it"
            self._passed, told = _version_of(raw), True
            self._pause, self._heard_at = _FIRST_PAUSE, time.monotonic()
            match event["type"]:
                case "DELETED":
                    self._gone(raw)
                case "ADDED" | "MODIFIED":
                    self._put(raw)
        self._heard_at = time.monotonic()
        if not told and self._heard_at - began < _SHORTEST_WATCH:
            raise Unavailable(0, "Ended", f"watch of {self._kind.plural}: it ended at once")

    def _put(self, raw: JsonObject, *, restored: bool = False) -> None:
        """Keep what is newer than what is known; what is older, too, if the API server's data may be `restored`."""
        key, uid, version = _key_of(raw), _uid_of(raw), _version_of(raw)
        known = self._kept.get(key)
        if known is not None and (known.version == version or (known.version > version and not restored)):
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
