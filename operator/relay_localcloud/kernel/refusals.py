"""Errors that refuse a request, raised at any depth; `http/errors.py` turns them into answers."""

from collections.abc import Mapping

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
    431: "head_too_large",
    500: "internal",
    502: "bad_upstream",
    503: "unavailable",
}


_CHALLENGE: Mapping[int, Mapping[str, str]] = {401: {"WWW-Authenticate": "Bearer"}}
"""What HTTP wants beside a status (RFC 9110, section 15.5.2)."""

LONGEST_MESSAGE = 400


def usual_code(status: int) -> str:
    """The default error code of a status."""
    return CODES.get(status, "error")


class ApiError(Exception):
    """An error answer: its status, a sentence for people, and a code for programs.

    The sentence is shortened unless it is to be answered `whole`, since it may repeat long input.
    """

    def __init__(
        self,
        status: int,
        message: str,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        whole: bool = False,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message if whole else shortened(message)
        self.code: str | None = code or usual_code(status)
        self.headers = {**_CHALLENGE.get(status, {}), **(headers or {})}


def shortened(message: str) -> str:
    """A message without its middle if it is long because it repeats some input."""
    return message if len(message) <= LONGEST_MESSAGE else f"{message[:300]} ... {message[-90:]}"
