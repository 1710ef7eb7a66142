"""Errors as the management API answers them: `{error, code}` with the statuses of section 7.

Raise `ApiError` anywhere below a route; it rolls the transaction back and becomes the answer. No input of a caller may
end in a 500: that means a defect here, and its traceback goes to stderr.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from starlette.responses import Response
from starlette.types import Scope

from relay_localcloud.kernel.refusals import ApiError

__all__ = ["ApiError", "ErrorAnswer", "error_response", "management_error", "not_found", "sentence"]


def not_found(noun: str, identifier: str) -> ApiError:
    """The answer for a resource that does not exist, or that the caller's organization may not see."""
    return ApiError(404, f"There is no {noun} {identifier!r} in this organization.")


def error_response(error: ApiError) -> Response:
    """The error as an HTTP answer."""
    body = json.dumps({"error": error.message, "code": error.code})
    return Response(body, error.status, error.headers, "application/json")


ErrorAnswer = Callable[[ApiError, Scope], Response]
"""How an API answers errors: its layers take this, since each API has its own format."""


def management_error(error: ApiError, _: Scope) -> Response:
    """The error as the management API answers it."""
    return error_response(error)


def sentence(errors: Sequence[Mapping[str, Any]]) -> str:
    """One sentence about what is wrong with a request, by its first wrong field; it never quotes values."""
    first = errors[0]
    field = ".".join(str(part) for part in first["loc"])
    more = f" ({len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{field or 'The body'}: {_said(first)}{more}."


def _said(error: Mapping[str, Any]) -> str:
    """What pydantic says about one field, without its generic prefix and suffix."""
    if error["type"] == "model_type":
        return "it must be a JSON object"
    said, _, _ = error["msg"].removeprefix("Value error, ").partition(" after validation")
    return str(said)
