"""Errors as the inference API answers them: `{error: {message, type, code}}` with the rows of section 7.

Raise `InferenceError(*MODEL_NOT_FOUND, "...")` anywhere below a route of this port; an `ApiError` of shared code
becomes the row of its status.
"""

import json
from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue
from starlette.responses import Response
from starlette.types import Scope

from relay_localcloud.http.errors import ApiError
from relay_localcloud.kernel.refusals import usual_code
from relay_wire.inference import Family

Row = tuple[int, str, str | None]
"""Status, type and code; the code is null if the table of section 7 leaves it blank."""

INVALID_REQUEST: Final[Row] = (400, "invalid_request_error", None)
UNSUPPORTED_API: Final[Row] = (400, "invalid_request_error", "unsupported_api")
MISSING_API_KEY: Final[Row] = (401, "authentication_error", "missing_api_key")
INVALID_API_KEY: Final[Row] = (401, "authentication_error", "invalid_api_key")
REVOKED_API_KEY: Final[Row] = (401, "authentication_error", "revoked_api_key")
EXPIRED_API_KEY: Final[Row] = (401, "authentication_error", "expired_api_key")
INSUFFICIENT_BALANCE: Final[Row] = (402, "insufficient_quota", "insufficient_balance")
ACCOUNT_SUSPENDED: Final[Row] = (403, "permission_error", "account_suspended")
ACCOUNT_UNAVAILABLE: Final[Row] = (403, "permission_error", "account_unavailable")
INSUFFICIENT_SCOPE: Final[Row] = (403, "permission_error", "insufficient_scope")  # assumed
NOT_FOUND: Final[Row] = (404, "not_found_error", None)
MODEL_NOT_FOUND: Final[Row] = (404, "not_found_error", "model_not_found")
METHOD_NOT_ALLOWED: Final[Row] = (405, "invalid_request_error", None)  # assumed
REQUEST_TIMEOUT: Final[Row] = (408, "invalid_request_error", None)  # assumed
CONFLICT: Final[Row] = (409, "invalid_request_error", None)
PAYLOAD_TOO_LARGE: Final[Row] = (413, "invalid_request_error", "payload_too_large")
REJECTED: Final[Row] = (422, "invalid_request_error", None)
RATE_LIMITED: Final[Row] = (429, "rate_limit_error", "rate_limit_error")
HEAD_TOO_LARGE: Final[Row] = (431, "invalid_request_error", None)  # assumed
DEFECT: Final[Row] = (500, "api_error", None)
UPSTREAM_ERROR: Final[Row] = (502, "api_error", "upstream_error")
UPSTREAM_UNAVAILABLE: Final[Row] = (503, "api_error", "upstream_unavailable")

_ROW_OF_STATUS: Mapping[int, Row] = {
    row[0]: row
    for row in (
        INVALID_REQUEST,
        INVALID_API_KEY,
        INSUFFICIENT_BALANCE,
        INSUFFICIENT_SCOPE,
        NOT_FOUND,
        METHOD_NOT_ALLOWED,
        REQUEST_TIMEOUT,
        CONFLICT,
        PAYLOAD_TOO_LARGE,
        REJECTED,
        RATE_LIMITED,
        HEAD_TOO_LARGE,
        UPSTREAM_ERROR,
        UPSTREAM_UNAVAILABLE,
    )
}


class InferenceError(ApiError):
    """An answer that is an error of the inference API; its code may be null."""

    def __init__(
        self,
        status: int,
        type: str,  # noqa: A002 - the wire's name
        code: str | None,
        message: str,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, message, headers=headers)
        self.type = type
        self.code = code

    def body(self, family: Family) -> dict[str, JsonValue]:
        """The body; in the Messages family it has `"type": "error"` beside the error (assumed)."""
        error: JsonValue = {"message": self.message, "type": self.type, "code": self.code}
        return {"type": "error", "error": error} if family is Family.MESSAGES else {"error": error}


def of_api_error(error: ApiError) -> InferenceError:
    """The same refusal as the inference API states it."""
    if isinstance(error, InferenceError):
        return error
    _, kind, code = _ROW_OF_STATUS.get(error.status, DEFECT)
    own_code = None if error.code == usual_code(error.status) else error.code
    return InferenceError(error.status, kind, own_code or code, error.message, error.headers)


def error_response(refusal: ApiError, scope: Scope) -> Response:
    """The error as an HTTP answer, in the format of the family that was called."""
    error = of_api_error(refusal)
    family = Family.MESSAGES if scope["path"].startswith(Family.MESSAGES) else Family.CHAT_COMPLETIONS
    return Response(json.dumps(error.body(family)), error.status, error.headers, "application/json")
