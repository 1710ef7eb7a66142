"""Everything that can go wrong with a call, and what it means for money.

    CloudError                  any failed call; `outcome` says whether the cloud may have acted
    ├── BadRequest              400 and every 4xx without a class of its own
    │   ├── Invalid             422: well-formed but meaningless together
    │   ├── NotServed           405: the cloud has no such operation
    │   ├── TooLarge            413: the upload, or the request, is over the cloud's limit
    │   └── NoInferenceUrl      not sent: the Cloud has no URL of the inference API
    ├── Unauthorized            401: missing, invalid, expired or revoked key
    │   └── CircuitOpen         not sent: the key was refused a moment ago
    ├── PaymentRequired         402: balance or spend limit
    ├── Forbidden               403: scope lacking, or another organization's
    ├── NotFound                404 with the cloud's own error body
    ├── Gone                    410 with the cloud's own error body
    ├── Conflict                409: `code` says why (POD_NODE_BUSY, a name clash, ...)
    ├── RateLimited             429, or not sent because of the account's own rate limit
    ├── CapacityExhausted       NODE_AT_CAPACITY, INSUFFICIENT_*_CAPACITY, whatever the status
    ├── CloudUnavailable        5xx, 408, no connection, connection lost, no answer in time
    │   ├── HeldBack            not sent: the cloud did not answer this operation several times in a row
    │   └── Withheld            not sent: its sender may no longer send
    └── Unreadable              an answer that is not the cloud's: HTML, a redirect, a 404 without its error body
        ├── Truncated           an answer that broke off
        └── Oversized           an answer that is larger than allowed

`outcome` is a value, not a class, because the same failure can mean different things: a refused connection did nothing,
but one that broke after the request had begun may have created something that is paid for.

Statuses and codes are those of section 7. Texts are safe to show: see `relay_client.redaction`.
"""

from enum import StrEnum
from typing import ClassVar


class Outcome(StrEnum):
    """Whether a failed call may have changed anything in the cloud."""

    NOT_SENT = "NotSent"
    """No byte of the request was sent: nothing happened."""
    REJECTED = "Rejected"
    """The cloud, or something in front of it, refused the request: nothing happened."""
    UNKNOWN = "Unknown"
    """The cloud may have acted on the request: check before sending it again."""


_BY_HARM = (Outcome.NOT_SENT, Outcome.REJECTED, Outcome.UNKNOWN)


def worse(one: Outcome, other: Outcome) -> Outcome:
    """The worse outcome of two attempts at the same call."""
    return max(one, other, key=_BY_HARM.index)


def clause(text: str) -> str:
    """The text without its final full stop, so that more may follow."""
    return text.rstrip(". ")


class CloudError(Exception):
    """A failed call.

    `status`, `code` and `error_type` (the inference API's `type`) come from the cloud, `None` if it gave none;
    `retry_after` is in seconds. After retries in place, `outcome` is the worst of all attempts.
    """

    default_outcome: ClassVar[Outcome] = Outcome.UNKNOWN

    def __init__(
        self,
        operation: str,
        message: str,
        *,
        status: int | None = None,
        code: str | None = None,
        error_type: str | None = None,
        retry_after: float | None = None,
        outcome: Outcome | None = None,
    ) -> None:
        super().__init__(operation, message)
        self.operation = operation
        self.message = message
        self.status = status
        self.code = code
        self.error_type = error_type
        self.retry_after = retry_after
        self.outcome = self.default_outcome if outcome is None else outcome

    def __str__(self) -> str:
        answer = " ".join(str(part) for part in (self.status, self.code) if part is not None)
        return ": ".join(filter(None, (self.operation, answer, clause(self.message))))


class BadRequest(CloudError):
    """The request is malformed or out of bounds (400), or refused with a status that has no class of its own."""

    default_outcome = Outcome.REJECTED


class Invalid(BadRequest):
    """The request is well-formed but semantically invalid (422)."""


class NotServed(BadRequest):
    """The cloud has no such operation (405; section 4 does not show the path of every one)."""


class TooLarge(BadRequest):
    """The upload is over 200 MB, or the request over 10 MiB (413, section 8)."""


class NoInferenceUrl(BadRequest):
    """The operation belongs to the inference API, but the Cloud has no `inference_url`."""

    default_outcome = Outcome.NOT_SENT


class Unauthorized(CloudError):
    """The key is missing, invalid, expired or revoked (401)."""

    default_outcome = Outcome.REJECTED


class CircuitOpen(Unauthorized):
    """The call was not sent, since the cloud refused the key a moment ago; `retry_after`: seconds to the next probe."""

    default_outcome = Outcome.NOT_SENT


class PaymentRequired(CloudError):
    """The balance or the monthly limit does not allow the call (402)."""

    default_outcome = Outcome.REJECTED


class Forbidden(CloudError):
    """The key lacks the scope, or belongs to another organization (403)."""

    default_outcome = Outcome.REJECTED


class NotFound(CloudError):
    """The resource is absent, or not visible to the organization (404 with the cloud's own error body)."""

    default_outcome = Outcome.REJECTED


class Gone(CloudError):
    """The resource existed and is no longer usable (410 with the cloud's own error body)."""

    default_outcome = Outcome.REJECTED


class Conflict(CloudError):
    """The current state does not allow the call (409)."""

    default_outcome = Outcome.REJECTED


class RateLimited(CloudError):
    """Too many requests (429); with the outcome NOT_SENT, the account's own rate limit refused it."""

    default_outcome = Outcome.REJECTED


class CapacityExhausted(CloudError):
    """The request is valid, but there is no capacity now: send the same request again later."""

    default_outcome = Outcome.REJECTED


class CloudUnavailable(CloudError):
    """The cloud did not answer, or answered that it cannot (5xx, 408)."""


class HeldBack(CloudUnavailable):
    """The call was not sent, since the operation failed several times; `retry_after`: seconds to the next probe.

    The message is that of the last failure, or tells the last status.
    """

    default_outcome = Outcome.NOT_SENT


class Withheld(CloudUnavailable):
    """The call was not sent, since its sender may no longer send, which says nothing about the cloud."""

    default_outcome = Outcome.NOT_SENT


class Unreadable(CloudError):
    """The answer is not the cloud's API."""


class Truncated(Unreadable):
    """The status of the answer was read, but not all of its body."""


class Oversized(Unreadable):
    """The answer has more bytes or values, or takes more memory, than allowed."""
