"""Proves that a webhook delivery is the cloud's (section 6, "Signature rule"). No I/O."""

import hmac
from collections.abc import Mapping
from hashlib import sha256

import pydantic

from relay_wire.events import SIGNATURE_HEADER, Event

_PREFIX = "sha256="


class InvalidSignature(ValueError):
    """The delivery was not signed with this secret: answer 401 and do nothing."""


class InvalidPayload(ValueError):
    """The delivery was signed with this secret, but is not an event."""


def verify(headers: Mapping[str, str], raw_body: bytes, secret: str) -> Event:
    """The event of a delivery whose signature is right; `raw_body` is what came, before any decoding.

    `secret` is the subscription's `whsec_` secret; header names are compared without regard to case.
    Raises InvalidSignature or InvalidPayload, whose texts repeat nothing of the delivery.
    """
    given = [value for name, value in headers.items() if name.lower() == SIGNATURE_HEADER.lower()]
    if len(given) != 1:
        raise InvalidSignature(f"the delivery needs one {SIGNATURE_HEADER} header, and has {len(given)}")
    # The hex text of the digest is the key, not the bytes that it stands for.
    key = sha256(secret.encode()).hexdigest().encode()
    expected = _PREFIX + hmac.new(key, raw_body, sha256).hexdigest()
    if not hmac.compare_digest(expected.encode(), given[0].encode()):
        raise InvalidSignature("the signature does not fit the body and the subscription's secret")
    try:
        return Event.model_validate_json(raw_body)
    except pydantic.ValidationError:
        raise InvalidPayload("the signed body is not an event with id and type") from None
