"""Verifies that a webhook delivery comes from the cloud (section 6, "Signature rule"). No I/O."""

import hmac
from collections.abc import Mapping
from hashlib import sha256
from typing import Final

import pydantic

from relay_client.crowding import is_crowded
from relay_wire.events import SIGNATURE_HEADER, Event

_PREFIX = "sha256="
_MOST_VALUES: Final = 20_000
"""The most in a body: a dense one takes a hundred times as long to decode as its signature takes to check."""


class InvalidSignature(ValueError):
    """The delivery is not signed with this secret: answer 401 and do nothing."""


class InvalidPayload(ValueError):
    """The delivery is signed with this secret, but is not an event."""


def verify(headers: Mapping[str, str], raw_body: bytes, secret: str) -> Event:
    """The event of a delivery with a valid signature; `raw_body` is the body as received, before any decoding.

    `secret` is the subscription's `whsec_` secret; header names are compared case-insensitively.
    Raises InvalidSignature or InvalidPayload, whose messages repeat nothing of the delivery.
    """
    authenticate(headers, raw_body, secret)
    return event_in(raw_body)


def authenticate(headers: Mapping[str, str], raw_body: bytes, secret: str) -> None:
    """Check the signature as `verify` does, and decode nothing. Raises InvalidSignature."""
    given = [value for name, value in headers.items() if name.lower() == SIGNATURE_HEADER.lower()]
    if len(given) != 1:
        raise InvalidSignature(f"the delivery needs one {SIGNATURE_HEADER} header, and has {len(given)}")
    # The key is the digest's hex text, not its bytes.
    key = sha256(secret.encode()).hexdigest().encode()
    expected = _PREFIX + hmac.new(key, raw_body, sha256).hexdigest()
    if not hmac.compare_digest(expected.encode(), given[0].encode(errors="replace")):
        raise InvalidSignature("the signature does not fit the body and the subscription's secret")


def event_in(signed_body: bytes) -> Event:
    """The event that a body is, once its signature was found valid. Raises InvalidPayload."""
    if is_crowded(signed_body, _MOST_VALUES):
        raise InvalidPayload(f"the signed body is not an event, since it has more than {_MOST_VALUES} values")
    try:
        return Event.model_validate_json(signed_body)
    except pydantic.ValidationError:
        raise InvalidPayload("the signed body is not an event with id and type") from None
