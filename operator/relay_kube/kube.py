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

JsonObject: TypeAlias = dict[str, JsonValue]

MERGE_PATCH = "application/merge-patch+json"
REQUEST_TIMEOUT = 30.0
PAGE_SIZE = 500
THROTTLED_ATTEMPTS = 5
"""How often a request that API priority and fairness turned away (429) is sent; it was not processed."""

_TIMEOUT = aiohttp.ClientTimeout(total=REQUEST_TIMEOUT)
_WATCH_SECONDS = 60
"""How long a watch lasts: one that died unheard is noticed soon after."""
_LARGEST_MESSAGE = 2**22
"""Bytes; the kubelet sends what was read at once, at most 32 KiB."""
_FOLLOWING = aiohttp.ClientTimeout(total=None, sock_connect=REQUEST_TIMEOUT)
_WATCH_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=REQUEST_TIMEOUT, sock_read=1.25 * _WATCH_SECONDS)


@lru_cache(maxsize=1024)  # the same ones are asked for again and again
def _quoted(part: str) -> str:
    return quote(part, safe="")


class KubeError(Exception):
    """The API server refused, or could not be asked. `status` is 0 if there was no answer."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}" if message else reason)
        self.status = status
        self.reason = reason


class NotFound(KubeError):
    """404, said by the API server itself: the object does not exist."""


class Conflict(KubeError):
    """409: somebody else wrote first, or a precondition (resourceVersion, uid) does not hold."""


class AlreadyExists(Conflict):
    """409 on a create: the name is taken."""


class Refused(KubeError):
    """400, 401, 403, 413, 422: the same request will be refused again."""


class Unavailable(KubeError):
    """No answer, 429, 5xx or what is not the API server's: the request may or may not have been processed."""


class NotLeading(Unavailable):
    """Another replica may lead: nothing that others see is done any more."""

    def __init__(self) -> None:
        super().__init__(0, "NotLeading", "another replica may lead: nothing is sent")


@dataclass(frozen=True, slots=True)
class ResourceType:
    """Where a kind lives in the API."""

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
    """Where it listens, and as whom it is asked."""

    url: str
    session: aiohttp.ClientSession
    headers: Callable[[], Mapping[str, str]] = dict
    """What tells who asks: taken again for every request, since tokens rotate."""
    proxy: str | None = None


class Kube:
    """Reads and writes objects as plain JSON; every failure is a `KubeError`.

    `on_write` is told of every write, for metrics: plural, verb and the status answered (0: none).
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

    async def openapi(self, group: str, version: str) -> JsonObject:
        """The OpenAPI v3 document of an API group, which everybody who is logged in may read."""
        return await self._request("GET", f"/openapi/v3/apis/{group}/{version}")

    async def pages(self, kind: ResourceType, namespace: str | None = None) -> AsyncIterator[list[JsonObject]]:
        """All objects of a kind, page by page; a failure midway raises, so a finished loop was complete."""
        async for items, _ in self.pages_as_of(kind, namespace):
            yield items

    async def pages_as_of(
        self, kind: ResourceType, namespace: str | None = None, *, field_selector: str = ""
    ) -> AsyncIterator[tuple[list[JsonObject], str]]:
        """Likewise, each with the version as of which all of them were read, after which a watch goes on."""
        token = ""
        while True:
            query = f"?limit={PAGE_SIZE}{_selected(field_selector)}" + (f"&continue={_quoted(token)}" if token else "")
            page = await self._request("GET", kind.path(namespace) + query)
            items, metadata = page.get("items"), page.get("metadata")
            said = metadata if isinstance(metadata, dict) else {}
            found = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
            yield found, str(said.get("resourceVersion") or "")
            token = str(said.get("continue") or "")
            if not token:
                return

    async def watch(self, kind: ResourceType, version: str, *, field_selector: str = "") -> AsyncIterator[JsonObject]:
        """What happens to the objects of a kind after a version, as `{type, object}`, for a minute.

        Bookmarks are among it. Raises KubeError, 410 if the version is too old. The session's `read_bufsize` bounds an
        object.
        """
        query = f"?watch=true&allowWatchBookmarks=true&resourceVersion={version}&timeoutSeconds={_WATCH_SECONDS}"
        path = kind.path() + query + _selected(field_selector)
        async with self._streamed(path, _WATCH_TIMEOUT, f"watch of {kind.plural}") as content:
            async for line in content:
                event = _object("GET", path, line)
                if event["type"] == "ERROR":
                    status = event["object"]
                    code = status.get("code") if isinstance(status, dict) else None
                    raise _error("GET", code if isinstance(code, int) else 500, orjson.dumps(status))
                yield event

    async def log(
        self, namespace: str, name: str, container: str, *, tail: int | None = None, follow: bool = False
    ) -> AsyncIterator[bytes]:
        """What a container of a Pod prints, in pieces as they come: lines with their instants before them.

        With `follow`, until it ends. Raises KubeError.
        """
        query = f"?container={_quoted(container)}&timestamps=true"
        query += ("" if tail is None else f"&tailLines={tail}") + ("&follow=true" if follow else "")
        path = PODS.path(namespace, name, "log") + query
        async with self._streamed(path, _FOLLOWING if follow else _TIMEOUT, f"log of {name}") as content:
            async for piece in content.iter_any():
                yield piece

    @contextlib.asynccontextmanager
    async def _streamed(
        self, path: str, within: aiohttp.ClientTimeout, what: str
    ) -> AsyncIterator[aiohttp.StreamReader]:
        try:
            async with self._api.session.get(
                URL(self._api.url + path, encoded=True),
                headers={"Accept": "application/json, */*", **self._api.headers()},
                timeout=within,
                proxy=self._api.proxy,
            ) as answer:
                if answer.status not in {200, 204}:  # no content: of a Pod that is on no node yet
                    raise _error("GET", answer.status, await answer.read())
                yield answer.content
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            raise Unavailable(0, "Unreachable", f"{what}: {error!r}") from error

    @contextlib.asynccontextmanager
    async def socket(self, path: str, protocol: str) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """A WebSocket that speaks a protocol of Kubernetes; closed when the context ends. Raises KubeError."""
        what = path.partition("?")[0]
        try:
            socket = await self._api.session.ws_connect(
                URL(self._api.url + path, encoded=True),
                protocols=(protocol,),
                headers=self._api.headers(),
                proxy=self._api.proxy,
                timeout=aiohttp.ClientWSTimeout(ws_close=REQUEST_TIMEOUT),
                max_msg_size=_LARGEST_MESSAGE,
                heartbeat=REQUEST_TIMEOUT,
            )
        except aiohttp.WSServerHandshakeError as error:
            raise _error("GET", error.status, _refused(error.status, what)) from error
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise Unavailable(0, "Unreachable", f"{what}: {error!r}") from error
        try:
            yield socket
        finally:
            await socket.close()

    async def look(self, kind: ResourceType, namespace: str | None = None) -> None:
        """Raises KubeError if objects of the kind cannot be listed there."""
        await self._request("GET", f"{kind.path(namespace)}?limit=1")

    async def create(self, kind: ResourceType, namespace: str | None, body: Mapping[str, JsonValue]) -> JsonObject:
        """Raises AlreadyExists if the name is taken."""
        return await self._write("POST", kind, kind.path(namespace), body)

    async def try_create(self, kind: ResourceType, namespace: str | None, body: Mapping[str, JsonValue]) -> None:
        """Raises what `create` would, and stores nothing."""
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
        """A merge patch; `metadata.resourceVersion` in it is a precondition (Conflict).

        `metadata.uid` is none: another than the object's is Refused, and ignored in a patch of a status.
        """
        return await self._write("PATCH", kind, kind.path(namespace, name, subresource), body)

    async def delete(
        self, kind: ResourceType, namespace: str | None, name: str, *, uid: str = "", version: str = ""
    ) -> None:
        """Delete this very object; one of the same name with another uid is left alone. Absence is success.

        Raises Conflict if it has another uid or version.
        """
        wanted: JsonObject = {
            field: value for field, value in {"uid": uid, "resourceVersion": version}.items() if value
        }
        preconditions: JsonObject = {"preconditions": wanted} if wanted else {}
        try:
            await self._write("DELETE", kind, kind.path(namespace, name), preconditions)
        except NotFound:
            return

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

    async def _request(self, method: str, path: str, body: Mapping[str, JsonValue] | None = None) -> JsonObject:
        attempt = 1
        while True:
            status, retry_after, raw = await self._send(method, path, body)
            if 200 <= status < 300:
                return _object(method, path, raw)
            if status != 429 or attempt == THROTTLED_ATTEMPTS:
                raise _error(method, status, raw)
            await self._sleep(min(retry_after, 5.0) * attempt)
            attempt += 1

    async def _send(self, method: str, path: str, body: Mapping[str, JsonValue] | None) -> tuple[int, float, bytes]:
        headers = {"Accept": "application/json", **self._api.headers()}
        if body is not None:
            headers["Content-Type"] = MERGE_PATCH if method == "PATCH" else "application/json"
        try:
            async with self._api.session.request(
                method,
                URL(self._api.url + path, encoded=True),
                data=None if body is None else _json(body),
                headers=headers,
                timeout=_TIMEOUT,
                proxy=self._api.proxy,
            ) as answer:
                raw = await answer.read()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise Unavailable(0, "Unreachable", f"{method} {path.partition('?')[0]}: {error!r}") from error
        return answer.status, _seconds(answer.headers.get("Retry-After")), raw


def _selected(field_selector: str) -> str:
    return f"&fieldSelector={_quoted(field_selector)}" if field_selector else ""


def _json(body: Mapping[str, JsonValue]) -> bytes:
    try:
        return orjson.dumps(body)
    except orjson.JSONEncodeError:  # half a surrogate pair in a text, which the API server replaces
        return json.dumps(body).encode()


def _object(method: str, path: str, raw: bytes) -> JsonObject:
    with contextlib.suppress(orjson.JSONDecodeError):
        found = orjson.loads(raw)
        if isinstance(found, dict):
            return found
    # What answered is not the API server: the request may have reached it all the same.
    raise Unavailable(0, "Unreadable", f"{method} {path.partition('?')[0]}: the answer is not an object")


def _seconds(header: str | None) -> float:
    return float(header) if header is not None and header.isdigit() else 1.0


def _error(method: str, status: int, raw: bytes) -> KubeError:
    reason, message = _status(raw.decode(errors="replace"))
    match status:
        case 404 if reason == "NotFound":
            return NotFound(status, reason, message)
        case 409 if method == "POST" and reason == "AlreadyExists":
            return AlreadyExists(status, reason, message)
        case 409:
            return Conflict(status, reason, message)
        case 404 | 429:  # a 404 that does not say what is missing is a proxy's, or of a server that is starting
            return Unavailable(status, reason, message)
        case _ if 400 <= status < 500:
            return Refused(status, reason, message)
        case 500 if "etcdserver: request is too large" in message:
            return Refused(413, "RequestEntityTooLarge", message)
        case _:
            return Unavailable(status, reason, message)


def _refused(status: int, what: str) -> bytes:
    """A Status for a refused WebSocket, whose own is not read."""
    reason = {403: "Forbidden", 404: "NotFound"}.get(status, "Refused")
    return json.dumps({"reason": reason, "message": f"{what}: the API server answered {status}"}).encode()


def _status(text: str) -> tuple[str, str]:
    """Reason and message of a Kubernetes Status; what is not one is not quoted."""
    try:
        body = json.loads(text)
    except ValueError:
        return "Unreadable", "the API server's answer is not JSON"
    if not isinstance(body, dict):
        return "Unreadable", "the API server's answer is not an object"
    return str(body.get("reason") or "Unknown"), str(body.get("message") or "")[:500]
