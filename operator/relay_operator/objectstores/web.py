"""Objects on web servers: GET with ranges, and one PUT, through the egress guard, redirects included."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from tempfile import NamedTemporaryFile
from weakref import WeakSet

import aiohttp
from yarl import URL

from relay_operator.objectstores.bucket_errors import not_let_out, untrusted
from relay_operator.objectstores.credentials import WebCredentials
from relay_operator.objectstores.egress import EgressRefused, Passage
from relay_operator.objectstores.errors import StoreError, StoreReason, reason_of
from relay_operator.objectstores.location import Location
from relay_operator.objectstores.own_thread import OwnThread, own_thread
from relay_operator.objectstores.store import LONGEST_PIECE, ObjectInfo, Opened
from relay_operator.records.pieces import collected, gathered

_REDIRECTS = (301, 302, 303, 307, 308)
_CONTENT_RANGE = re.compile(r"bytes (?P<start>[0-9]{1,18})-[0-9]{1,18}/(?P<size>[0-9]{1,18}|\*)")
_MOST_REDIRECTS = 5
_AT_ONCE = 5 * 1_048_576  # bytes: a smaller body is sent with its length, which some servers require
_SILENCE_SECONDS = 60
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=15, sock_read=_SILENCE_SECONDS)
_PLAIN = {"Accept-Encoding": "identity", "User-Agent": "relay-operator"}


@asynccontextmanager
async def web_store(location: Location, credentials: WebCredentials, passage: Passage) -> AsyncIterator[WebStore]:
    """The store of one URL, with its own connections, in a thread of its own."""
    async with own_thread(_session(location, credentials)) as http:
        yield WebStore(location, credentials, passage, http)


@asynccontextmanager
async def _session(location: Location, credentials: WebCredentials) -> AsyncIterator[aiohttp.ClientSession]:
    opened = WeakSet[socket.socket]()

    def open_socket(address: aiohttp.AddrInfoType) -> socket.socket:
        made = socket.socket(*address[:3])
        opened.add(made)
        return made

    connector = aiohttp.TCPConnector(ssl=_trust(location, credentials.ca), socket_factory=open_socket)
    async with aiohttp.ClientSession(
        connector=connector,
        timeout=_TIMEOUT,
        trust_env=False,
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        headers=_PLAIN,
    ) as session:
        yield session
    for left in opened:  # a connection stays open until what it still has to send is gone, and no loop sends it now
        left.close()


def _trust(location: Location, ca: str) -> ssl.SSLContext:
    """Whom to trust. Reads the ca.crt, whose certificates may be as hostile as a server's, from a file.

    Python lets other threads run while it loads a file, and not while it loads a str.
    """
    trust = ssl.create_default_context()
    if ca:
        try:
            with NamedTemporaryFile("w", encoding="ascii") as file:
                file.write(ca)
                file.flush()
                trust.load_verify_locations(file.name)
        except (OSError, ValueError):  # SSLError is an OSError
            raise StoreError(StoreReason.INVALID, f"The ca.crt for {location} is not a PEM certificate.") from None
    return trust


class WebStore:
    """One URL, reached through the egress guard. See `Store` for the methods."""

    def __init__(
        self,
        location: Location,
        credentials: WebCredentials,
        passage: Passage,
        http: OwnThread[aiohttp.ClientSession],
    ) -> None:
        self._location = location
        self._authorization = credentials.authorization
        self._passage = passage
        self._http = http

    async def find(self) -> ObjectInfo | None:
        answer = await self._follow("HEAD", {})
        self._http.soon(answer.release)
        if answer.status in (404, 410):
            return None
        if answer.status not in (200, 204):
            raise _refusal(self._location, answer.status)
        return _seen(200, answer.headers)[0]

    async def open(self, start: int, version: str) -> Opened:
        headers = {"Range": f"bytes={start}-"} if start else {}
        if version.startswith('"'):  # a weak ETag never matches, and a date is not an ETag: both are compared below
            headers["If-Match"] = version
        answer = await self._follow("GET", headers)
        try:
            info, first = self._begun(answer, start)
        except BaseException:
            self._http.soon(answer.close)
            raise
        if version and info.version != version:
            self._http.soon(answer.close)
            raise _refusal(self._location, 412)
        return Opened(info, self._pieces(answer, skip=start - first), partial(self._http.soon, answer.close))

    async def write(self, chunks: AsyncIterable[bytes]) -> str:
        """Send one PUT; if the chunks raise, it is cut off, so that the server never sees its end."""
        source = gathered(chunks, LONGEST_PIECE)
        first = await collected(source, _AT_ONCE)
        body = _Body(first, source)
        url, headers = URL(self._location.url, encoded=True), {"Content-Type": "application/octet-stream"}
        data = first if len(first) < _AT_ONCE else self._http.pulled(aiter(body))
        try:
            answer = await self._request("PUT", url, headers, self._authorization, data)
        except StoreError:
            if body.failure is not None:
                raise body.failure from None
            raise
        self._http.soon(answer.release)
        if answer.status in _REDIRECTS:
            raise self._invalid("its server redirects a PUT: name the URL that it redirects to")
        if answer.status not in (200, 201, 204):
            raise _refusal(self._location, answer.status)
        return answer.headers.get("ETag", "")

    async def create(self, content: bytes) -> bool:
        raise self._invalid("a web server has one object per URL, and nothing can be created beside it")

    async def delete(self) -> None:
        raise self._invalid("nothing is deleted from web servers")

    async def check_writable(self) -> None:
        """Check with a HEAD that the server answers and does not refuse the authorization."""
        answer = await self._follow("HEAD", {})
        self._http.soon(answer.release)
        if answer.status == 401 or (answer.status >= 500 and answer.status != 501):
            raise _refusal(self._location, answer.status)

    def _begun(self, answer: aiohttp.ClientResponse, start: int) -> tuple[ObjectInfo, int]:
        if answer.status not in (200, 206):
            raise _refusal(self._location, answer.status)
        encoding = answer.headers.get("Content-Encoding", "identity")
        if encoding.lower() != "identity":
            raise self._invalid("its server sends it compressed, though that was not asked for")
        try:
            info, first = _seen(answer.status, answer.headers)
        except ValueError as error:
            raise self._invalid(str(error)) from None
        if first > start:
            raise self._invalid("its server answered with another range than was asked for")
        coding = answer.headers.get("Transfer-Encoding", "").lower()
        if info.size is None and (answer.status == 206 or coding != "chunked"):  # a part would look like all of it
            raise self._invalid("its server does not say where it ends: it must send a Content-Length, or be chunked")
        return info, first

    async def _pieces(self, answer: aiohttp.ClientResponse, skip: int) -> AsyncGenerator[bytes, None]:
        """The body; if the server ignores ranges, without the bytes read before."""
        while True:
            with self._errors():
                chunk = await self._http.run(_next(answer))
            if not chunk:
                return
            skipped = min(skip, len(chunk))
            skip -= skipped
            if skipped < len(chunk):
                yield chunk[skipped:]

    async def _follow(self, method: str, headers: dict[str, str]) -> aiohttp.ClientResponse:
        """The answer after redirects; the authorization goes only to the first origin."""
        url, authorization = URL(self._location.url, encoded=True), self._authorization
        for _ in range(_MOST_REDIRECTS + 1):
            answer = await self._request(method, url, headers, authorization)
            if answer.status not in _REDIRECTS:
                return answer
            self._http.soon(answer.close)
            target = _redirect_target(self._location, url, answer.headers.get("Location", ""))
            authorization = authorization if target.origin() == url.origin() else ""
            url = target
        raise self._invalid(f"its server redirects more than {_MOST_REDIRECTS} times")

    async def _request(
        self,
        method: str,
        url: URL,
        headers: dict[str, str],
        authorization: str,
        data: bytes | AsyncIterator[bytes] | None = None,
    ) -> aiohttp.ClientResponse:
        if authorization:
            headers = headers | {"Authorization": authorization}
        proxy = URL(self._passage.address)
        admission = {"Proxy-Authorization": self._passage.authorization}
        if url.scheme == "http":  # without CONNECT, this header must carry it; the guard removes it again
            headers = headers | admission
        with self._errors():
            request = self._http.client.request(
                method, url, headers=headers, data=data, allow_redirects=False, proxy=proxy, proxy_headers=admission
            )
            return await self._passage.first_of(self._http.run(request))

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except EgressRefused as refused:
            raise not_let_out(self._location, refused) from None
        except aiohttp.ClientConnectorCertificateError:
            raise untrusted(self._location) from None
        except (aiohttp.ClientError, OSError) as error:  # TimeoutError is an OSError
            why = self._passage.failure or f"the connection failed ({type(error).__name__})"
            raise StoreError(StoreReason.UNREACHABLE, f"{self._location} could not be reached: {why}.") from None

    def _invalid(self, problem: str) -> StoreError:
        return StoreError(StoreReason.INVALID, f"{self._location} cannot be used: {problem}.")


class _Body:
    """The body of a PUT. Keeps the error of its chunks, which HTTP clients report as a lost connection."""

    def __init__(self, first: bytes, rest: AsyncIterator[bytes]) -> None:
        self.failure: Exception | None = None
        self._first = first
        self._rest = rest

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            yield self._first
            async for piece in self._rest:
                yield piece
        except Exception as failure:
            self.failure = failure
            raise


async def _next(answer: aiohttp.ClientResponse) -> bytes:
    """The next bytes of the body; empty at its end.

    After a malformed chunk, aiohttp drops its own timeout and waits for ever, or finds the connection closed.
    """
    try:
        async with asyncio.timeout(_SILENCE_SECONDS):
            return await answer.content.read(LONGEST_PIECE)
    except RuntimeError as closed:
        raise aiohttp.ClientPayloadError(str(closed)) from None


def _seen(status: int, headers: Mapping[str, str]) -> tuple[ObjectInfo, int]:
    """The object, and the offset at which the answer's body begins; raises ValueError for a malformed range."""
    version = headers.get("ETag") or headers.get("Last-Modified") or ""
    length = headers.get("Content-Length", "")
    if status != 206:
        return ObjectInfo(int(length) if length.isdecimal() else None, version), 0
    match = _CONTENT_RANGE.fullmatch(headers.get("Content-Range", ""))
    if match is None:
        raise ValueError("a range was answered without a Content-Range that says which")
    size = match["size"]
    return ObjectInfo(None if size == "*" else int(size), version), int(match["start"])


def _redirect_target(location: Location, url: URL, target: str) -> URL:
    """The target of a redirect; raises `StoreError` if it gives up TLS or leads nowhere."""
    try:
        joined = url.join(URL(target))
    except ValueError:
        joined = URL()
    if not target or joined.scheme not in ("http", "https") or not joined.host or joined.user:
        raise StoreError(StoreReason.INVALID, f"{location} redirects to no URL that can be followed.")
    if url.scheme == "https" and joined.scheme == "http":
        raise StoreError(
            StoreReason.NOT_ALLOWED, f"{location} redirects from https to plain http, which is not followed."
        )
    return joined


def _refusal(location: Location, status: int) -> StoreError:
    """The error for a status other than success."""
    reason = reason_of(status)
    return StoreError(reason, f"{location} {_SENTENCES[reason].format(status=status)}.")


_SENTENCES = {
    StoreReason.NOT_FOUND: "does not exist ({status})",
    StoreReason.FORBIDDEN: "was refused by its server ({status}): check the authorization in the Secret",
    StoreReason.CHANGED: "was replaced while it was read ({status})",
    StoreReason.UNREACHABLE: "is not served at the moment ({status})",
    StoreReason.INVALID: "cannot be used: its server answered with status {status}",
}
