"""What can go wrong with a location, as one exception with a closed set of reasons."""

from enum import StrEnum


class StoreReason(StrEnum):
    """Why a location could not be read or written; each asks for something else from the reader."""

    NOT_FOUND = "ObjectNotFound"
    BUCKET_NOT_FOUND = "BucketNotFound"
    FORBIDDEN = "Forbidden"
    ALREADY_EXISTS = "AlreadyExists"
    NOT_ALLOWED = "NotAllowed"  # by the operator's administrator: a folder, a private address, a scheme
    CHANGED = "Changed"  # replaced or removed while it was read
    UNREACHABLE = "Unreachable"  # nothing is known about the location; worth another attempt
    INVALID = "Invalid"  # the URL or the Secret cannot be used as written


def reason_of(status: int) -> StoreReason:
    """What a server means by a status that is none of success."""
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
    """A location could not be used. The text is for people: it has no query, no user information and no secret."""

    def __init__(self, reason: StoreReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message

    @property
    def transient(self) -> bool:
        """Whether the same call may succeed later with nothing changed by anybody."""
        return self.reason is StoreReason.UNREACHABLE
