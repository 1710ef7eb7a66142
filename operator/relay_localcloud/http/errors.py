"""Errors as the management API answers them: `{error, code}` with the statuses of section 7.

Raise `ApiError` anywhere below a route; it rolls the transaction back and becomes the answer. Nothing a caller sends
may end in a 500: that means a defect here, and its traceback goes to stderr.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from starlette.responses import Response
from starlette.types import Scope

# Section 7 names `not_found` only; the others follow its spelling.
CODES: Mapping[int, str] = {
    400: "invalid_request",
    401: "unauthorized",
    402: "payment_required",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "request_timeout",
    409: "conflict",
    410: "gone",
    413: "payload_too_large",
    422: "unprocessable",
    429: "rate_limited",
    500: "internal",
    502: "bad_upstream",
    503: "unavailable",
}


LONGEST_MESSAGE = 400


class ApiError(Exception):
    """An answer that is an error: its status, a sentence for people, and a code for programs."""

    def __init__(
        self, status: int, message: str, code: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = shortened(message)
        self.code: str | None = code or CODES.get(status, "error")
        self.headers = dict(headers or {})


def shortened(message: str) -> str:
    """A message that repeats something long, without its middle."""
    return message if len(message) <= LONGEST_MESSAGE else f"{message[:300]} ... {message[-90:]}"


def not_found(noun: str, identifier: str) -> ApiError:
    """The answer for what is absent, or not visible to the caller's organization."""
    return ApiError(404, f"There is no {noun} {identifier!r} in this organization.")


def error_response(error: ApiError) -> Response:
    """The error as an HTTP answer."""
    body = json.dumps({"error": error.message, "code": error.code})
    return Response(body, error.status, error.headers, "application/json")


ErrorAnswer = Callable[[ApiError, Scope], Response]
"""How an API answers errors: its layers are given this, since each API has a shape of its own."""


def management_error(error: ApiError, _: Scope) -> Response:
    """The error as the management API answers it."""
    return error_response(error)


def sentence(errors: Sequence[Mapping[str, Any]]) -> str:
    """What is wrong with a request, the first field first, in one sentence; values are never quoted."""
    first = errors[0]
    field = ".".join(str(part) for part in first["loc"])
    more = f" ({len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{field or 'The body'}: {first['msg']}{more}."
