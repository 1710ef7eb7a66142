"""What an error of a bucket's service means, by the status and code in its answer. Pure."""

import re

from relay_operator.objectstores.egress import EgressRefused
from relay_operator.objectstores.errors import StoreError, StoreReason, reason_of
from relay_operator.objectstores.location import Location, Scheme

_STATUS = re.compile(r"status code: (?P<status>[0-9]{3})\b")
_CODE = re.compile(r"<Code>(?P<code>[A-Za-z]{1,64})</Code>|\"code\": ?\"(?P<json>[A-Za-z]{1,64})\"")
_NO_BUCKET = {"NoSuchBucket", "ContainerNotFound", "ContainerBeingDeleted", "InvalidBucketName", "ResourceNotFound"}
_EXPIRED = {"ExpiredToken", "InvalidToken"}  # of temporary keys, with status 400
_KEY_NOT_READ = "credential provider"  # obstore's words for a key that is not base64, or a signature without parameters
_WRONG_CLOCK = "RequestTimeTooSkewed"
_WRONG_REGION = {"AuthorizationHeaderMalformed", "PermanentRedirect", "IllegalLocationConstraintException"}


def not_let_out(location: Location, refused: EgressRefused) -> StoreError:
    """The error for a server that the egress guard refuses to connect to."""
    reason = StoreReason.UNREACHABLE if refused.passing else StoreReason.NOT_ALLOWED
    return StoreError(reason, f"{location} cannot be used: {refused}.")


def already_there(location: Location) -> StoreError:
    """The error for an existing object that must not be replaced."""
    sentence = f"{location} exists already: remove it, name another output, or let it be replaced."
    return StoreError(StoreReason.ALREADY_EXISTS, sentence)


def untrusted(location: Location) -> StoreError:
    """The error for a server whose certificate cannot be verified."""
    advice = "put the certificate of its authority into ca.crt of the Secret"
    sentence = f"{location} has a certificate that no trusted authority has signed: {advice}."
    return StoreError(StoreReason.UNREACHABLE, sentence)


def unusable(location: Location) -> StoreError:
    """The error for credentials that no client accepts."""
    # obstore refuses a second Google key from the environment instead of choosing one.
    also = ", and GOOGLE_SERVICE_ACCOUNT in the operator's environment" if location.scheme is Scheme.GCS else ""
    sentence = f"{location} cannot be opened with what the Secret holds: check its keys and ca.crt{also}."
    return StoreError(StoreReason.INVALID, sentence)


def understood(location: Location, text: str, failure: str) -> StoreError:
    """The error to show; `failure` says why no connection could be made, if so.

    The service's text may quote keys and signatures, so only its status and code are shown.
    """
    if "Content-Length Header missing" in text:
        sentence = f"{location} has no length, since its service decompresses what it sends: store it uncompressed."
        return StoreError(StoreReason.INVALID, sentence)
    status = int(match["status"]) if (match := _STATUS.search(text)) else None
    found = _CODE.search(text)
    code = (found["code"] or found["json"]) if found else ""
    reason = _reason(status, code)
    if status is None and _KEY_NOT_READ in text:
        return unusable(location)
    if status is None and failure:
        return StoreError(reason, f"{location} could not be reached: {failure}.")
    if status is None and "certificate" in text.lower():
        return untrusted(location)
    said = f" ({' '.join(filter(None, [str(status or ''), code]))})" if status or code else ""
    return StoreError(reason, f"{location} {_SENTENCES[reason]}{said}{_advice(reason, code)}.")


def _reason(status: int | None, code: str) -> StoreReason:
    if code in _NO_BUCKET:
        return StoreReason.BUCKET_NOT_FOUND
    if code in _WRONG_REGION:
        return StoreReason.INVALID
    if code in _EXPIRED:
        return StoreReason.FORBIDDEN
    # 409: another operation interfered.
    return StoreReason.UNREACHABLE if status is None or status < 300 or status == 409 else reason_of(status)


_SENTENCES = {
    StoreReason.NOT_FOUND: "does not exist",
    StoreReason.BUCKET_NOT_FOUND: "is in a bucket that does not exist",
    StoreReason.FORBIDDEN: "was refused by its service",
    StoreReason.CHANGED: "was replaced while it was read",
    StoreReason.UNREACHABLE: "could not be reached, or its service is out of order",
    StoreReason.INVALID: "was not understood by its service",
}


def _advice(reason: StoreReason, code: str) -> str:
    if code in _WRONG_REGION:
        return ": set AWS_REGION in the Secret to the bucket's region"
    if code == _WRONG_CLOCK:
        return ": correct the clock of the operator's node"
    if reason is StoreReason.FORBIDDEN:
        return ": check the keys in the Secret and what they may do there"
    if reason is StoreReason.BUCKET_NOT_FOUND:
        return ": create it, or correct the URL"
    return ""
