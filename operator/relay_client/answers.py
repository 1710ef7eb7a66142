"""What an answer means: a result, or an error with its outcome. Pure; the statuses are those of section 7."""

import contextlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import pydantic
from pydantic_core import from_json

from relay_client import errors
from relay_client.crowding import is_crowded
from relay_client.errors import CloudError, Outcome
from relay_client.memory import memory_of
from relay_client.operations import NOTHING, AnyOperation, Api, Operation
from relay_client.redaction import all_presentable, legible, presentable
from relay_client.retry import retry_after
from relay_wire.errors import ErrorBody, ErrorCode, InferenceError, InferenceErrorBody

ResultT = TypeVar("ResultT")

CAPACITY_CODES = frozenset(
    {
        ErrorCode.NODE_AT_CAPACITY,
        ErrorCode.INSUFFICIENT_GPU_CAPACITY,
        ErrorCode.INSUFFICIENT_CPU_CAPACITY,
        ErrorCode.INSUFFICIENT_IP_CAPACITY,
    }
)
"""Codes of saturation, recognized by code since the specification does not show the status (section 7)."""

_BY_STATUS: Mapping[int, type[CloudError]] = {
    400: errors.BadRequest,
    401: errors.Unauthorized,
    402: errors.PaymentRequired,
    403: errors.Forbidden,
    404: errors.NotFound,
    405: errors.NotServed,
    # The server, or a proxy, gave up waiting: it may have acted on the request.
    408: errors.CloudUnavailable,
    409: errors.Conflict,
    410: errors.Gone,
    413: errors.TooLarge,
    422: errors.Invalid,
    429: errors.RateLimited,
}

_AFTER_AUTHENTICATION = frozenset({402, 403, 404, 409, 410, 422})
_BY_ID = frozenset({"GET", "DELETE"})
"""Methods whose answer is about the resource in the path; others may answer with what they created."""
_READ_AS_GONE = frozenset({404, 410})
_MAX_CODE_CHARS = 100
_KNOWN_CODES = frozenset(ErrorCode)
MAX_VALUES = 30_000
"""Of an answer: many of them may be in memory at once. A cluster with a thousand replicas has 21,000."""
MAX_VALUES_OF_LARGE = 125_000
"""Of a large answer; of the smallest items they take 0.2 to 0.5 s to read, and 90 MiB."""
MAX_MEMORY = 8 * 1024**2
"""Of an answer once it is read, in bytes; one wide character makes a text four times as large as its JSON."""
_SMALL = 2**14
"""In bytes: no answer of this size takes so much memory."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One HTTP response; `broken` says why its body was not read to the end, None if it was."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    broken: str | None = None
    oversized: bool = False
    """Whether the body is larger than allowed; `broken` says so, too."""

    @property
    def is_success(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300

    @property
    def proves_key(self) -> bool:
        """Whether the answer is an error that comes only after the key was found valid."""
        return self.status in _AFTER_AUTHENTICATION


class NoAnswerError(Exception):
    """There was no response; `begun`: part of the request was sent; `withheld`: it was no longer allowed to be sent."""

    def __init__(self, reason: str, *, begun: bool, withheld: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.begun = begun
        self.withheld = withheld


def result_of(operation: Operation[Any, ResultT], answer: Answer, *, large: bool = False) -> ResultT:
    """The result of a 2xx answer, with texts as `legible` leaves them.

    Raises Unreadable if the answer is not the operation's, and Oversized if it is too large, or `large` if not allowed.
    """
    if answer.broken is not None:
        kind, how = (errors.Oversized, "is too large") if answer.oversized else (errors.Truncated, "broke off")
        raise kind(operation.name, presentable(f"the answer {how} ({_looks(answer)})"), status=answer.status)
    coding = answer.headers.get("content-encoding") or "identity"
    if answer.body and coding.lower() != "identity":
        raise _unreadable(operation, answer, f"the body is encoded as {coding}, which was not asked for")
    if operation.result is NOTHING:
        _must_not_be_foreign(operation, answer)
        return cast("ResultT", None)
    if operation.result is str:
        if "html" in _content_type(answer):
            raise _unreadable(operation, answer, "the body is HTML")
        return cast("ResultT", answer.body.decode(errors="replace"))
    model = cast("type[pydantic.BaseModel]", operation.result)
    try:
        # Decoded first: each error of a validation of JSON has a copy of its own of what the error is about.
        result = model.model_validate(_decoded(operation, answer, MAX_VALUES_OF_LARGE if large else MAX_VALUES))
    except pydantic.ValidationError as error:
        raise _unreadable(operation, answer, _complaint(error)) from None
    except ValueError as error:
        raise _unreadable(operation, answer, f"body: Invalid JSON: {error}") from None
    result = legible(result, answer.body)
    if not large and len(answer.body) > _SMALL and memory_of(result) > MAX_MEMORY:
        raise _unreadable(operation, answer, f"it takes more than {MAX_MEMORY >> 20} MiB of memory", errors.Oversized)
    return cast("ResultT", result)


def about(operation: Operation[Any, ResultT], asked: str | None, result: ResultT) -> ResultT:
    """The result of a read by id. Raises Unreadable if it is about another resource than `asked`."""
    told = getattr(result, "id", asked)
    if asked is None or told == asked or operation.method not in _BY_ID:
        return result
    text = presentable(f"cannot read the answer: it is about {told}, and {asked} was asked for")
    raise errors.Unreadable(operation.name, text, status=200)


def error_of(operation: AnyOperation, answer: Answer, wall_now: float, secrets: Collection[str] = ()) -> CloudError:
    """The error that an answer other than 2xx means; `secrets` are strings that its message must not repeat."""
    said = _said(operation, answer)
    texts = said.message or _unexplained(answer), said.code or "", said.type or ""
    message, shown_code, shown_type = all_presentable(texts, secrets)
    code = _word(said.code, shown_code)
    kind, outcome = _kind(answer.status, code, said_by_cloud=bool(said.message or said.code))
    return kind(
        operation.name,
        message,
        status=answer.status,
        code=code,
        error_type=_word(said.type, shown_type),
        retry_after=retry_after(answer.headers.get("retry-after"), wall_now),
        outcome=outcome,
    )


def error_without_answer(operation: AnyOperation, failure: NoAnswerError, secrets: Collection[str] = ()) -> CloudError:
    """The error for a missing answer; nothing happened only if no byte of the request was sent."""
    outcome = Outcome.UNKNOWN if failure.begun else Outcome.NOT_SENT
    kind = errors.Withheld if failure.withheld else errors.CloudUnavailable
    return kind(operation.name, presentable(failure.reason, secrets), outcome=outcome)


def _decoded(operation: AnyOperation, answer: Answer, most: int) -> object:
    """The JSON of the body. Raises Oversized if it has more than `most` values, and ValueError if it is not JSON."""
    if is_crowded(answer.body, most):
        raise _unreadable(operation, answer, f"it has more than {most} values", errors.Oversized)
    return from_json(answer.body)


def _kind(status: int, code: str | None, *, said_by_cloud: bool) -> tuple[type[CloudError], Outcome | None]:
    if code in CAPACITY_CODES:
        return errors.CapacityExhausted, None
    if status >= 500:
        return errors.CloudUnavailable, None
    if status < 400:
        # Redirects are not followed, and do not say whether the server did something first.
        return errors.Unreadable, None
    if status in _READ_AS_GONE and not said_by_cloud:
        # An ingress without a backend also answers 404, which must never read as "the resource is gone".
        return errors.Unreadable, Outcome.REJECTED
    return _BY_STATUS.get(status, errors.BadRequest), None


def _said(operation: AnyOperation, answer: Answer) -> InferenceError:
    """What the error body says; the management API's body has no `type`, and is accepted from either API."""
    if answer.broken is not None or is_crowded(answer.body, MAX_VALUES):
        return InferenceError()
    with contextlib.suppress(pydantic.ValidationError):
        if operation.api is Api.INFERENCE:
            return InferenceErrorBody.model_validate_json(answer.body).error
    with contextlib.suppress(pydantic.ValidationError):
        body = ErrorBody.model_validate_json(answer.body)
        return InferenceError(message=body.error, code=body.code)
    return InferenceError()


def _word(text: str | None, shown: str) -> str | None:
    """A word for programs, without secrets. A code of section 7 stays whole, even if a secret equals a part of it."""
    return shown[:_MAX_CODE_CHARS] if text and text not in _KNOWN_CODES else text or None


def _unexplained(answer: Answer) -> str:
    if 300 <= answer.status < 400:
        where = answer.headers.get("location", "nowhere").partition("?")[0]
        return f"answered with a redirect to {where}, which is not followed: check the account's base URL"
    if is_crowded(answer.body, MAX_VALUES):
        return f"HTTP {answer.status} came with more than {MAX_VALUES} values ({_looks(answer)})"
    return f"HTTP {answer.status} came without an error text of the cloud ({_looks(answer)})"


def _must_not_be_foreign(operation: AnyOperation, answer: Answer) -> None:
    content_type = _content_type(answer)
    if "html" in content_type or answer.body.lstrip()[:1] == b"<":
        raise _unreadable(operation, answer, "the body is HTML")
    if answer.body and "json" in content_type:
        try:
            _decoded(operation, answer, MAX_VALUES)
        except ValueError:
            raise _unreadable(operation, answer, "the body is not JSON") from None


def _content_type(answer: Answer) -> str:
    return answer.headers.get("content-type", "").lower()


def _unreadable(
    operation: AnyOperation, answer: Answer, reason: str, kind: type[errors.Unreadable] = errors.Unreadable
) -> errors.Unreadable:
    text = presentable(f"cannot read the answer: {reason} ({_looks(answer)})")
    return kind(operation.name, text, status=answer.status)


def _looks(answer: Answer) -> str:
    content_type = answer.headers.get("content-type", "no content type")
    return f"{content_type}, {answer.broken}" if answer.broken else f"{content_type}, {len(answer.body)} bytes"


def _complaint(error: pydantic.ValidationError) -> str:
    details = error.errors(include_url=False, include_context=False, include_input=False)
    shown = [f"{'.'.join(str(part) for part in detail['loc']) or 'body'}: {detail['msg']}" for detail in details[:3]]
    return "; ".join(shown)
