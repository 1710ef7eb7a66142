"""What can go wrong with a location: one exception with a closed set of reasons."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum


class StoreReason(StrEnum):
    """Why a location could not be read or written; each reason needs a different response."""

    NOT_FOUND = "ObjectNotFound"
    BUCKET_NOT_FOUND = "BucketNotFound"
    FORBIDDEN = "Forbidden"
    ALREADY_EXISTS = "AlreadyExists"
    NOT_ALLOWED = "NotAllowed"  # by the operator's administrator: a folder, a private address, a scheme
    CHANGED = "Changed"  # replaced or removed while being read
    UNREACHABLE = "Unreachable"  # nothing is known about the location; worth another attempt
    INVALID = "Invalid"  # the URL or the Secret is unusable as written


def reason_of(status: int) -> StoreReason:
    """The reason for a status other than success."""
    match status:
        case 404 | 410:
            return StoreReason.NOT_FOUND
        case 401 | 403 | 407:
            return StoreReason.FORBIDDEN
        case 304 | 412 | 416:
            return StoreReason.CHANGED
        case passing if passing in _PASSING or passing >= 500:
            return StoreReason.UNREACHABLE
        case _:
            return StoreReason.INVALID


_PASSING = (408, 425, 429)


class StoreError(Exception):
    """A location could not be used. The message is for people, without query, user information and secrets."""

    def __init__(self, reason: StoreReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message

    @property
    def transient(self) -> bool:
        """Whether the same call may succeed later although nobody changes anything."""
        return self.reason is StoreReason.UNREACHABLE


@contextmanager
def tolerated(reason: StoreReason) -> Iterator[None]:
    """Suppress the error with this reason."""
    try:
        yield
    except StoreError as error:
        if error.reason is not reason:
            raise
