"""Verifies that a webhook delivery comes from the cloud (section 6, "Signature rule"). No I/O."""

import hmac
from collections.abc import Mapping
from hashlib import sha256

import pydantic

from relay_wire.events import SIGNATURE_HEADER, Event

_PREFIX = "sha256="


class InvalidSignature(ValueError):
    """The delivery is not signed with this secret: answer 401 and do nothing."""


class InvalidPayload(ValueError):
    """The delivery is signed with this secret, but is not an event."""


def verify(headers: Mapping[str, str], raw_body: bytes, secret: str) -> Event:
    """The event of a delivery with a valid signature; `raw_body` is the body as received, before any decoding.

    `secret` is the subscription's `whsec_` secret; header names are compared case-insensitively.
    Raises InvalidSignature or InvalidPayload, whose messages repeat nothing of the delivery.
    """
    given = [value for name, value in headers.items() if name.lower() == SIGNATURE_HEADER.lower()]
    if len(given) != 1:
        raise InvalidSignature(f"the delivery needs one {SIGNATURE_HEADER} header, and has {len(given)}")
    # The key is the digest's hex text, not its bytes.
    key = sha256(secret.encode()).hexdigest().encode()
    expected = _PREFIX + hmac.new(key, raw_body, sha256).hexdigest()
    if not hmac.compare_digest(expected.encode(), given[0].encode(errors="replace")):
        raise InvalidSignature("the signature does not fit the body and the subscription's secret")
    try:
        return Event.model_validate_json(raw_body)
    except pydantic.ValidationError:
        raise InvalidPayload("the signed body is not an event with id and type") from None
