"""The Kubernetes API as typed calls."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias
from urllib.parse import quote

import aiohttp
import orjson
from pydantic import JsonValue
from yarl import URL

from relay_kube.errors import KubeError, NotFound, Unavailable, error_of, reason_of, told
from relay_kube.nesting import decoded

JsonObject: TypeAlias = dict[str, JsonValue]

MERGE_PATCH = "application/merge-patch+json"
REQUEST_TIMEOUT = 30.0
PAGE_SIZE = 100
LARGEST_PAGE = 2**22
"""In bytes: what is larger is asked for again with fewer objects, since empty lists take twenty times this decoded."""
THROTTLED_ATTEMPTS = 5
"""How often a request is sent that API priority and fairness rejects (429), which does not process it."""

_OF_SOCKETS = {403: "Forbidden", 404: "NotFound"}
_TIMEOUT = aiohttp.ClientTimeout(total=REQUEST_TIMEOUT)
_WATCH_SECONDS = 60
"""How long a watch lasts, so that one whose connection died silently is noticed soon."""
_LARGEST_MESSAGE = 2**22
"""In bytes; the kubelet sends at most 32 KiB in one message."""
_FOLLOWING = aiohttp.ClientTimeout(total=None, sock_connect=REQUEST_TIMEOUT)
_LOG_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=REQUEST_TIMEOUT, sock_read=REQUEST_TIMEOUT)
"""Without a bound on the whole: a log takes as long as its reader."""
_WATCH_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=REQUEST_TIMEOUT, sock_read=1.25 * _WATCH_SECONDS)


@lru_cache(maxsize=1024)  # requests repeat the same parts
def _quoted(part: str) -> str:
    return quote(part, safe="")


class _LargePageError(Exception):
    """The page has more than `LARGEST_PAGE` bytes."""


@dataclass(frozen=True, slots=True)
class ResourceType:
    """The place of a kind in the API."""

    plural: str
    group: str = ""
    version: str = "v1"
    namespaced: bool = True

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        parts = [root]
        if self.namespaced and namespace is not None:
            parts += ["namespaces", _quoted(namespace)]
        parts.append(self.plural)
        parts += [_quoted(part) for part in (name, subresource) if part is not None]
        return "/".join(parts)


SECRETS = ResourceType("secrets")
CONFIG_MAPS = ResourceType("configmaps")
EVENTS = ResourceType("events", "events.k8s.io")
PODS = ResourceType("pods")
NAMESPACES = ResourceType("namespaces", namespaced=False)


@dataclass(frozen=True, slots=True)
class ApiAccess:
    """The address of an API server, connections to it, and the credentials for it."""

    url: str
    session: aiohttp.ClientSession
    headers: Callable[[], Mapping[str, str]] = dict
    """The headers that authenticate a request; read for every request, since tokens rotate."""
    proxy: str | None = None


class Kube:
    """Reads and writes objects as plain JSON; every failure is a `KubeError`.

    `on_write` is called after every write, for metrics, with the plural, the verb and the status (0 without an answer).
    """

    def __init__(
        self,
        api: ApiAccess,
        *,
        field_manager: str = "relay-operator",
        on_write: Callable[[str, str, int], None] = lambda _plural, _verb, _status: None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._api = api
        self._field_manager = field_manager
        self._on_write = on_write
        self._sleep = sleep

    async def get(self, kind: ResourceType, namespace: str | None, name: str) -> JsonObject:
        """One object. Raises NotFound."""
        return await self._request("GET", kind.path(namespace, name))

    async def serves(self, kind: ResourceType) -> bool:
        """Whether the API server has this kind, at this version, which every authenticated user may ask."""
        try:
            return kind.plural in await self.served(kind.group, kind.version)
        except KubeError as error:
            if error.status == 404:
                return False
            raise

    async def served(self, group: str, version: str) -> frozenset[str]:
        """The plurals of the kinds that an API group has, which every authenticated user may ask.

        Raises KubeError, with status 404 if the API server does not know the group.
        """
        path = f"/apis/{group}/{version}"
        resources = (await self._request("GET", path)).get("resources")
        if not isinstance(resources, list):
            raise Unavailable(0, "Unreadable", f"GET {path}: the answer does not list resources")
        return frozenset(str(each.get("name")) for each in resources if isinstance(each, dict))

    async def openapi(self, group: str, version: str) -> JsonObject:
        """The OpenAPI v3 document of an API group, which every authenticated user may read."""
        return await self._request("GET", f"/openapi/v3/apis/{group}/{version}", objects=0)

    async def pages(self, kind: ResourceType, namespace: str | None = None) -> AsyncIterator[list[JsonObject]]:
        """Yields all objects of a kind, page by page; a failure midway raises, so a finished loop was complete."""
        async for items, _ in self.pages_as_of(kind, namespace):
            yield items

    async def pages_as_of(
        self, kind: ResourceType, namespace: str | None = None, *, field_selector: str = ""
    ) -> AsyncIterator[tuple[list[JsonObject], str]]:
        """Yields pages like `pages`, each with the resourceVersion of the whole list, after which a watch continues."""
        token, limit = "", PAGE_SIZE
        while True:
            query = f"?limit={limit}{_selected(field_selector)}" + (f"&continue={_quoted(token)}" if token else "")
            try:
                page = await self._request("GET", kind.path(namespace) + query, bounded=limit > 1, objects=3)
            except _LargePageError:
                limit = max(limit // 4, 1)
                continue
            limit = min(2 * limit, PAGE_SIZE)
            items, metadata = page.get("items"), page.get("metadata")
            said = metadata if isinstance(metadata, dict) else {}
            found = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
            yield found, str(said.get("resourceVersion") or "")
            token = str(said.get("continue") or "")
            if not token:
                return

    async def watch(self, kind: ResourceType, version: str, *, field_selector: str = "") -> AsyncIterator[JsonObject]:
        """Yields the changes of a kind's objects after a resourceVersion, as `{type, object}`, for a minute.

        They include bookmarks. Raises KubeError, of status 410 if the version is too old. The session's `read_bufsize`
        bounds the size of an object.
        """
        query = f"?watch=true&allowWatchBookmarks=true&resourceVersion={version}&timeoutSeconds={_WATCH_SECONDS}"
        path = kind.path() + query + _selected(field_selector)
        async with self._streamed(path, _WATCH_TIMEOUT, f"watch of {kind.plural}") as content:
            async for line in content:
                event = _object("GET", path, line, objects=2)
                if event["type"] == "ERROR":
                    status = event["object"]
                    code = status.get("code") if isinstance(status, dict) else None
                    raise error_of("GET", code if isinstance(code, int) else 500, *reason_of(status))
                yield event

    async def log(
        self, namespace: str, name: str, container: str, *, tail: int | None = None, follow: bool = False
    ) -> AsyncIterator[bytes]:
        """Yields the output of a container in pieces as they arrive, each line after its timestamp.

        `tail` is the number of last lines, None for all. With `follow`, lasts until the end. Raises KubeError.
        """
        query = f"?container={_quoted(container)}&timestamps=true"
        query += ("" if tail is None else f"&tailLines={tail}") + ("&follow=true" if follow else "")
        path = PODS.path(namespace, name, "log") + query
        async with self._streamed(path, _FOLLOWING if follow else _LOG_TIMEOUT, f"log of {name}") as content:
            async for piece in content.iter_any():
                yield piece

    @contextlib.asynccontextmanager
    async def _streamed(
        self, path: str, within: aiohttp.ClientTimeout, what: str
    ) -> AsyncIterator[aiohttp.StreamReader]:
        try:
            async with self._api.session.get(
                _url(self._api.url + path),
                headers={"Accept": "application/json, */*", **self._api.headers()},
                timeout=within,
                proxy=self._api.proxy,
            ) as answer:
                if answer.status not in {200, 204}:  # 204: a log of a Pod that is not on a node yet
                    raise error_of("GET", answer.status, *told(await answer.read()))
                yield answer.content
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            raise Unavailable(0, "Unreachable", f"{what}: {error!r}") from error

    @contextlib.asynccontextmanager
    async def socket(self, path: str, protocol: str) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """Yields a WebSocket with a protocol of Kubernetes; closes it at the end of the context. Raises KubeError."""
        what = path.partition("?")[0]
        try:
            socket = await self._api.session.ws_connect(
                _url(self._api.url + path),
                protocols=(protocol,),
                headers=self._api.headers(),
                proxy=self._api.proxy,
                timeout=aiohttp.ClientWSTimeout(ws_close=REQUEST_TIMEOUT),
                max_msg_size=_LARGEST_MESSAGE,
            )
        except aiohttp.WSServerHandshakeError as error:
            # aiohttp does not return the API server's own Status.
            message = f"{what}: the API server answered {error.status}"
            raise error_of("GET", error.status, _OF_SOCKETS.get(error.status, "Refused"), message) from error
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise Unavailable(0, "Unreachable", f"{what}: {error!r}") from error
        try:
            yield socket
        finally:
            await socket.close()

    async def look(self, kind: ResourceType, namespace: str | None = None) -> None:
        """Raises KubeError if objects of the kind cannot be listed in the namespace, or, for None, in all of them."""
        await self._request("GET", f"{kind.path(namespace)}?limit=1", objects=3)

    async def create(self, kind: ResourceType, namespace: str | None, body: Mapping[str, JsonValue]) -> JsonObject:
        """Create an object. Raises AlreadyExists if its name is taken."""
        return await self._write("POST", kind, kind.path(namespace), body)

    async def try_create(self, kind: ResourceType, namespace: str | None, body: Mapping[str, JsonValue]) -> None:
        """Dry-run `create`: raises what that would, and stores nothing."""
        await self._request("POST", f"{kind.path(namespace)}?dryRun=All&fieldManager={self._field_manager}", body)

    async def patch(
        self,
        kind: ResourceType,
        namespace: str | None,
        name: str,
        body: Mapping[str, JsonValue],
        *,
        subresource: str | None = None,
    ) -> JsonObject:
        """Merge a patch into an object; `metadata.resourceVersion` in it is a precondition (Conflict).

        `metadata.uid` is not a precondition: one that differs from the object's is Refused, but ignored in a patch of a
        status.
        """
        return await self._write("PATCH", kind, kind.path(namespace, name, subresource), body)

    async def delete(
        self, kind: ResourceType, namespace: str | None, name: str, *, uid: str = "", version: str = ""
    ) -> None:
        """Delete an object, only if it has this `uid` and `version`, if they are given. Absence is success.

        Raises Conflict if it has another uid or resourceVersion.
        """
        wanted: JsonObject = {
            field: value for field, value in {"uid": uid, "resourceVersion": version}.items() if value
        }
        preconditions: JsonObject = {"preconditions": wanted} if wanted else {}
        try:
            await self._write("DELETE", kind, kind.path(namespace, name), preconditions)
        except NotFound:
            return

    async def delete_labelled(self, kind: ResourceType, namespace: str, which: str, label: str, value: str) -> None:
        """Delete the objects of a field selector that have this label, which needs the right `deletecollection`.

        Absence is success.
        """
        selected = f"{_selected(which)}&labelSelector={_quoted(f'{label}={value}')}"
        await self._write("DELETE", kind, f"{kind.path(namespace)}?{selected}", {})

    async def _write(self, method: str, kind: ResourceType, path: str, body: Mapping[str, JsonValue]) -> JsonObject:
        query = "" if method == "DELETE" else f"?fieldManager={self._field_manager}"
        status = 200
        try:
            return await self._request(method, path + query, body)
        except KubeError as error:
            status = error.status
            raise
        finally:
            self._on_write(kind.plural, method.lower(), status)

    async def _request(
        self,
        method: str,
        path: str,
        body: Mapping[str, JsonValue] | None = None,
        *,
        bounded: bool = False,
        objects: int = 1,
    ) -> JsonObject:
        """The answer, in which the API's objects are at the level `objects`; 0 if it has none."""
        attempt = 1
        while True:
            status, retry_after, raw = await self._send(method, path, body, bounded=bounded)
            if 200 <= status < 300:
                return _object(method, path, raw, objects)
            if status != 429 or attempt == THROTTLED_ATTEMPTS:
                raise error_of(method, status, *told(raw))
            await self._sleep(min(retry_after, 5.0) * attempt)
            attempt += 1

    async def _send(
        self, method: str, path: str, body: Mapping[str, JsonValue] | None, *, bounded: bool
    ) -> tuple[int, float, bytes]:
        headers = {"Accept": "application/json", **self._api.headers()}
        if body is not None:
            headers["Content-Type"] = MERGE_PATCH if method == "PATCH" else "application/json"
        try:
            async with self._api.session.request(
                method,
                _url(self._api.url + path),
                data=None if body is None else _json(body),
                headers=headers,
                timeout=_TIMEOUT,
                proxy=self._api.proxy,
            ) as answer:
                raw = await (_page(answer.content) if bounded else answer.read())
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise Unavailable(0, "Unreachable", f"{method} {path.partition('?')[0]}: {error!r}") from error
        return answer.status, _seconds(answer.headers.get("Retry-After")), raw


@lru_cache(maxsize=1024)  # an object is written several times
def _url(text: str) -> URL:
    return URL(text, encoded=True)


async def _page(content: aiohttp.StreamReader) -> bytes:
    """The rest of the content. Raises _LargePageError."""
    read = bytearray()
    async for piece in content.iter_any():
        read += piece
        if len(read) > LARGEST_PAGE:
            raise _LargePageError
    return bytes(read)


def _selected(field_selector: str) -> str:
    return f"&fieldSelector={_quoted(field_selector)}" if field_selector else ""


def _json(body: Mapping[str, JsonValue]) -> bytes:
    try:
        return orjson.dumps(body)
    except orjson.JSONEncodeError:  # a lone surrogate in a text, which the API server replaces
        return json.dumps(body).encode()


def _object(method: str, path: str, raw: bytes, objects: int) -> JsonObject:
    with contextlib.suppress(orjson.JSONDecodeError):
        found = decoded(raw, objects)
        if isinstance(found, dict):
            return found
    # The answer is not from the API server, but the request may have reached it.
    raise Unavailable(0, "Unreadable", f"{method} {path.partition('?')[0]}: the answer is not an object")


def _seconds(header: str | None) -> float:
    return float(header) if header is not None and header.isdigit() else 1.0
