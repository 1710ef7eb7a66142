"""One connection of HTTP/1.1, with bounds on what a client may send before it is authenticated."""

import asyncio
from collections.abc import Callable
from enum import Enum, auto
from http import HTTPStatus
from typing import Any, Final

import httptools
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from relay_localcloud.http.errors import ApiError, ErrorAnswer, management_error
from relay_localcloud.http.taking import Taking
from relay_localcloud.http.visitors import Visitors

ABORT: Final = "relay_localcloud.abort"
CLOSE: Final = "relay_localcloud.close"
"""In a scope's extensions: closes its connection, once what was written has been sent."""
LARGEST_HEAD: Final = 64 * 1024
"""Bytes of a request line with its headers; also between two parts of a chunked body, and of its trailers."""
MOST_HEADERS: Final = 100
HEAD_SECONDS: Final = 10.0
"""How long a head may take; also how long a connection may be open before anything comes."""
TOO_LARGE: Final = (
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    f"A request's head has at most {LARGEST_HEAD} bytes.",
)
TOO_LATE: Final = (HTTPStatus.REQUEST_TIMEOUT, f"A request's head takes at most {HEAD_SECONDS:g} seconds.")
MALFORMED: Final = (HTTPStatus.BAD_REQUEST, "This is not HTTP/1.1 as its grammar has it.")
NO_HOST: Final = (HTTPStatus.BAD_REQUEST, "A request of HTTP/1.1 has one Host header.")
_PIECE: Final = 4 * 1024
"""Bytes that are parsed at once: so much of a head may exceed the limit, and so much be parsed before its turn."""
LINGER_SECONDS: Final = 2.0
"""How long a refused client has to read the answer: if the connection closed while it sends, it might miss it."""


def last_answer(status: HTTPStatus, message: str, refused: ErrorAnswer = management_error, path: str = "") -> bytes:
    """A refusal of a request that was not read to its end; the connection closes after it.

    `refused` formats it, for the path as far as it is known.
    """
    head = f"HTTP/1.1 {status.value} {status.phrase}\r\nconnection: close\r\ncontent-type: application/json\r\n"
    body = bytes(refused(ApiError(status, message), {"path": path}).body)
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


class _At(Enum):
    """Where the parser is."""

    BETWEEN = auto()  # two requests
    HEAD = auto()
    BODY = auto()


class _Flow(FlowControl):
    """Receives nothing while data waits to be parsed."""

    def __init__(self, transport: asyncio.Transport, waiting: bytearray) -> None:
        super().__init__(transport)
        self._waiting = waiting

    def resume_reading(self) -> None:
        if not self._waiting:
            super().resume_reading()


class _Answering(asyncio.Transport):
    """The transport as the answer to one request knows it: the connection decides when it closes."""

    def __init__(self, transport: asyncio.Transport, close: Callable[[], None]) -> None:
        super().__init__()
        self._transport = transport
        self._close = close

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._transport.write(data)

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def close(self) -> None:
        self._close()


class Connection(HttpToolsProtocol):
    """Requests can end their connection; a head that is too large is answered 431, one that is too slow 408.

    What is not HTTP is answered 400; all three have the format of the API's other errors, which `refused` knows.
    Pipelined requests wait unparsed. A connection beyond the limit of its client's address is closed at once.
    """

    _visitor: str | None = None
    _at = _At.BETWEEN
    _progressed = False
    _bytes_without = 0  # progress of the parser
    _anew = b""  # a head that is to be parsed in place of the one that has just been
    _refused = False
    _ends_with_body = False
    _deadline: asyncio.TimerHandle | None = None

    def __init__(
        self,
        visitors: Visitors,
        *arguments: Any,  # noqa: ANN401 - uvicorn's own, as the rest
        refused: ErrorAnswer = management_error,
        **more: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(*arguments, **more)
        self.url = b""
        self._visitors = visitors
        self._formatted = refused
        self._taking = Taking(lambda: visitors.stalled_seconds)
        self._waiting = bytearray()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = _Flow(transport, self._waiting)
        self._visitor = self._visitors.come(transport)
        if self._visitor is None:
            transport.abort()
        else:
            self._await_more()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._visitor is not None:
            self._visitors.go(self._visitor)
        self._stop_waiting()
        self._taking.end()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._taking.begin(self.transport)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._taking.end()

    @property
    def _is_over(self) -> bool:
        return self._refused or self.transport.is_closing()

    @property
    def _is_answered(self) -> bool:
        """Whether every request so far has its whole answer."""
        return self.cycle is None or self.cycle.response_complete

    def data_received(self, data: bytes) -> None:
        self._waiting += data
        self._parse_waiting()
        if self._waiting and not self._is_over:
            self.flow.pause_reading()

    def _parse_waiting(self) -> None:
        """Parse what has come, in pieces, until a request has to wait for the answer to an earlier one."""
        while self._waiting and not self.pipeline and not self._is_over:
            piece = bytes(self._waiting[:_PIECE])
            del self._waiting[:_PIECE]
            self._parse(piece)

    def _parse(self, data: bytes) -> None:
        self._progressed = False
        self._unset_keepalive_if_required()
        self._feed(data)
        self._bytes_without = 0 if self._progressed else self._bytes_without + len(data)
        if self._bytes_without > LARGEST_HEAD:
            self._refuse(*TOO_LARGE)
        self._await_more()

    def _feed(self, data: bytes) -> None:
        """Parse these bytes.

        A request to change the protocol too is one to be answered (RFC 9110, section 7.8), but the parser ends at its
        head and leaves its body: so another one parses the same head without `Upgrade`, and all that follows.
        """
        rest = data
        while rest:
            try:
                self.parser.feed_data(rest)
            except httptools.HttpParserError:
                self._refuse(*MALFORMED)
            except httptools.HttpParserUpgrade as upgrade:
                rest, self._anew = self._anew + rest[upgrade.args[0] :], b""
                self.parser = httptools.HttpRequestParser(self)
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does
                continue
            return

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._is_over:
            return
        self._unset_keepalive_if_required()  # any data would end it: a deadline of this class takes its place
        self._parse_waiting()
        if not self.cycle.body:  # otherwise, whoever takes the body resumes
            self.flow.resume_reading()
        self._await_more()

    def _move(self, to: _At) -> None:
        if not self._is_over:
            self._at, self._progressed = to, True
            self._stop_waiting()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._move(_At.HEAD)
        self.scope["extensions"] = {ABORT: self.transport.abort, CLOSE: self.transport.close}  # type: ignore[dict-item]

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._at is _At.BODY:  # a trailer, of which nothing here makes use
            return
        super().on_header(name, value)
        if len(self.headers) == MOST_HEADERS + 1:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"A request has at most {MOST_HEADERS} headers.")

    def on_headers_complete(self) -> None:
        if self._head_size > LARGEST_HEAD:
            self._refuse(*TOO_LARGE)
        if not self._names_one_host:
            self._refuse(*NO_HOST)
        if self._is_over:
            return
        if self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT":
            self._anew = self._head_without(b"upgrade")
        else:
            super().on_headers_complete()
            self.cycle.transport = _Answering(self.transport, self._close_answered)
            self._move(_At.BODY)  # only now: a URL that is none is refused above, before its request begins

    def on_body(self, body: bytes) -> None:
        self._progressed = True
        if not self._is_over:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if not (self._is_over or self._anew):
            self._move(_At.BETWEEN)
            super().on_message_complete()
            if self._ends_with_body:
                self.transport.close()

    def _close_answered(self) -> None:
        """Close after an answer; if that was whole before its request, only once the rest has come, or is late.

        A client that still sends would miss the answer: the kernel resets a connection that closes unread.
        """
        self._ends_with_body = self._at is _At.BODY and self.cycle.response_complete
        if not self._ends_with_body:
            self.transport.close()

    def _head_without(self, header: bytes) -> bytes:
        """The complete head, written again without this header."""
        line = b"%b %b HTTP/%b\r\n" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())
        return b"".join((line, *(b"%b: %b\r\n" % each for each in self.headers if each[0] != header), b"\r\n"))

    @property
    def _names_one_host(self) -> bool:
        """Whether the head names the server as HTTP requires (RFC 9112, section 3.2): 1.0 did not yet."""
        hosts = sum(name == b"host" for name, _ in self.headers)
        return hosts == 1 or (hosts == 0 and self.parser.get_http_version() == "1.0")

    @property
    def _head_size(self) -> int:
        """The size of a complete head, as clients usually write it."""
        line = len(self.parser.get_method()) + len(self.url) + len("  HTTP/1.1\r\n\r\n")
        return line + sum(len(name) + len(value) + len(": \r\n") for name, value in self.headers)

    def _await_more(self) -> None:
        """Start the deadline of what comes next, once all earlier requests are answered."""
        if self._deadline is None and self._is_answered and not self._is_over:
            is_head = self._at is _At.HEAD or self.cycle is None
            seconds = HEAD_SECONDS if is_head else self.timeout_keep_alive
            self._deadline = self.loop.call_later(seconds, self._is_late)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _is_late(self) -> None:
        self._deadline = None
        if self._at is _At.HEAD:
            self._refuse(*TOO_LATE)
        else:
            self.transport.close()

    @property
    def _is_next(self) -> bool:
        """Whether the client would take an answer now for that to what is being read."""
        if self._at is _At.BODY:
            return not (self.pipeline or self.cycle.response_started)
        return self._is_answered

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        """Answer, unless an answer to this or an earlier request has begun, and end the connection."""
        if self._is_over:
            return
        self._refused = True
        if self._is_next:
            self.transport.write(last_answer(status, message, self._formatted, self.url.decode("latin-1")))
        if not self._is_answered or not self.transport.can_write_eof():  # TLS cannot be closed in one direction
            self.transport.close()
            return
        self.transport.write_eof()
        self.flow.pause_reading()
        self._stop_waiting()
        self._deadline = self.loop.call_later(LINGER_SECONDS, self.transport.close)
