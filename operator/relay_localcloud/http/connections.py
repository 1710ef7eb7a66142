"""One connection of HTTP/1.1, with bounds on what a client may send before it is authenticated."""

import asyncio
import json
from http import HTTPStatus
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from relay_localcloud.http.taking import Taking
from relay_localcloud.http.visitors import Visitors
from relay_localcloud.kernel.refusals import CODES

ABORT: Final = "relay_localcloud.abort"
CLOSE: Final = "relay_localcloud.close"
"""In a scope's extensions: closes its connection, once what was written has been sent."""
LARGEST_HEAD: Final = 64 * 1024
"""Bytes of a request line with its headers."""
MOST_HEADERS: Final = 100
HEAD_SECONDS: Final = 10.0
"""How long a head may take; also how long a connection may be open before anything comes."""
TOO_LARGE: Final = (
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    f"A request's head has at most {LARGEST_HEAD} bytes.",
)
TOO_LATE: Final = (HTTPStatus.REQUEST_TIMEOUT, f"A request's head takes at most {HEAD_SECONDS:g} seconds.")
_PIECE: Final = 16 * 1024
"""Bytes that are parsed at once: of data that came with the end of a request, at most this much escapes the limit."""
LINGER_SECONDS: Final = 2.0
"""How long a refused client has to read the answer: if the connection closed while it sends, it might miss it."""


def last_answer(status: HTTPStatus, message: str) -> bytes:
    """A refusal of a request that was not read to its end; the connection closes after it."""
    head = f"HTTP/1.1 {status.value} {status.phrase}\r\nconnection: close\r\ncontent-type: application/json\r\n"
    body = json.dumps({"error": message, "code": CODES[status]})
    return f"{head}content-length: {len(body)}\r\n\r\n{body}".encode()


class Connection(HttpToolsProtocol):
    """Requests can end their connection; a head that is too large is answered 431, one that is too slow 408.

    A connection beyond the limit of its client's address is closed at once.
    """

    _visitor: str | None = None
    _in_head = True
    _head_bytes = 0
    _message_ended = False
    _refused = False
    _deadline: asyncio.TimerHandle | None = None

    def __init__(self, visitors: Visitors, *arguments: Any, **more: Any) -> None:  # noqa: ANN401 - uvicorn's own
        super().__init__(*arguments, **more)
        self._visitors = visitors
        self._taking = Taking(lambda: visitors.stalled_seconds)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._visitor = self._visitors.come(transport)
        if self._visitor is None:
            transport.abort()
        else:
            self._await_head()

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

    def data_received(self, data: bytes) -> None:
        for start in range(0, len(data), _PIECE):
            if self._is_over:
                return
            self._parse(data[start : start + _PIECE])

    def _parse(self, data: bytes) -> None:
        self._message_ended = False
        super().data_received(data)
        if not self._in_head or self._is_over:
            return
        # It is unknown how much of the data after the end of a request belongs to the next one.
        self._head_bytes += 0 if self._message_ended else len(data)
        if self._head_bytes > LARGEST_HEAD:
            self._refuse(*TOO_LARGE)
        else:
            self._await_rest_of_head()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._await_rest_of_head()  # a part of it may have come before the end of the answer

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {ABORT: self.transport.abort, CLOSE: self.transport.close}  # type: ignore[dict-item]

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        if len(self.headers) == MOST_HEADERS + 1:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"A request has at most {MOST_HEADERS} headers.")

    def on_headers_complete(self) -> None:
        self._in_head, self._head_bytes = False, 0
        if self._head_size > LARGEST_HEAD:
            self._refuse(*TOO_LARGE)
        if not self._is_over:
            self._stop_waiting()
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if not self._is_over:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_head = self._message_ended = True
        if not self._is_over:
            super().on_message_complete()

    @property
    def _head_size(self) -> int:
        """The size of a complete head, as clients usually write it."""
        line = len(self.parser.get_method()) + len(self.url) + len("  HTTP/1.1\r\n\r\n")
        return line + sum(len(name) + len(value) + len(": \r\n") for name, value in self.headers)

    def _await_rest_of_head(self) -> None:
        """Start the deadline of a head, once it has begun and all earlier requests are answered."""
        if self._head_bytes and self._deadline is None and self.cycle.response_complete and not self._is_over:
            self._await_head()

    def _await_head(self) -> None:
        self._deadline = self.loop.call_later(HEAD_SECONDS, self._head_is_late)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _head_is_late(self) -> None:
        self._deadline = None
        if self._head_bytes:
            self._refuse(*TOO_LATE)
        else:
            self.transport.close()

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        """Answer, unless an answer to an earlier request is under way, and end the connection."""
        if self._is_over:
            return
        self._refused = True
        is_answered = self.cycle is None or self.cycle.response_complete
        if is_answered:
            self.transport.write(last_answer(status, message))
        if not is_answered or not self.transport.can_write_eof():  # TLS cannot be closed in one direction
            self.transport.close()
            return
        self.transport.write_eof()
        self.transport.pause_reading()
        self._stop_waiting()
        self._deadline = self.loop.call_later(LINGER_SECONDS, self.transport.close)
