"""The signature rule of section 6, against HMAC-SHA256 written out with SHA-256 alone."""

import json
from hashlib import sha256

import pytest

from relay_client import InvalidPayload, InvalidSignature, verify

SECRET = "whsec_5f1c0a7be2"
BODY = b'{"id":"evt_1","type":"vm.running","created_at":"2026-11-21T00:00:00Z","data":{"vmId":"vm_1"}}'
BLOCK = 64


def hmac_sha256(key: bytes, message: bytes) -> str:
    """RFC 2104: H((K ^ opad) || H((K ^ ipad) || message))."""
    block = (sha256(key).digest() if len(key) > BLOCK else key).ljust(BLOCK, b"\0")
    inner = sha256(bytes(byte ^ 0x36 for byte in block) + message).digest()
    return sha256(bytes(byte ^ 0x5C for byte in block) + inner).hexdigest()


def signed(body: bytes = BODY, secret: str = SECRET) -> dict[str, str]:
    key = sha256(secret.encode()).hexdigest().encode()
    return {"X-Relay-Signature": f"sha256={hmac_sha256(key, body)}", "X-Relay-Event": "vm.running"}


def test_the_written_out_hmac_is_right() -> None:
    # RFC 4231, test case 2.
    assert hmac_sha256(b"Jefe", b"what do ya want for nothing?") == (
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
    )


def test_a_delivery_signed_with_the_secret_is_its_event() -> None:
    event = verify(signed(), BODY, SECRET)
    assert (event.id, event.type, event.created_at) == ("evt_1", "vm.running", "2026-11-21T00:00:00Z")
    assert event.resource_id == "vm_1"


def test_a_known_delivery_has_a_known_signature() -> None:
    # openssl dgst -sha256 -hmac "$(printf %s "$SECRET" | sha256sum | cut -d' ' -f1)"
    known = "fe6e0853829538a4c9c13ba8a34217520edb3b3955a3b9b43ac633044bc9f962"
    assert signed()["X-Relay-Signature"] == f"sha256={known}"
    assert verify({"X-Relay-Signature": f"sha256={known}"}, BODY, SECRET).id == "evt_1"


@pytest.mark.parametrize("name", ["x-relay-signature", "X-RELAY-SIGNATURE", "X-Relay-Signature"])
def test_header_names_are_compared_without_regard_to_case(name: str) -> None:
    assert verify({name: signed()["X-Relay-Signature"]}, BODY, SECRET).id == "evt_1"


RIGHT = signed()["X-Relay-Signature"]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-Relay-Signature": ""},
        {"X-Relay-Signature": f"{RIGHT}\udcff"},
        {"X-Relay-Signature": RIGHT.removeprefix("sha256=")},
        {"X-Relay-Signature": RIGHT.upper()},
        {"X-Relay-Signature": "sha256=" + RIGHT.removeprefix("sha256=").upper()},
        {"X-Relay-Signature": RIGHT[:-1]},
        {"X-Relay-Signature": RIGHT + " "},
        {"X-Relay-Signature": "sha1=" + RIGHT.removeprefix("sha256=")},
        {"X-Relay-Signature": "sha256=é"},
        {"X-Relay-Signature": RIGHT, "x-relay-signature": RIGHT},
        signed(secret="whsec_other"),
        signed(body=BODY + b"\n"),
        {"X-Relay-Signature": f"sha256={hmac_sha256(SECRET.encode(), BODY)}"},
        {"X-Relay-Signature": f"sha256={hmac_sha256(sha256(SECRET.encode()).digest(), BODY)}"},
    ],
)
def test_any_other_signature_is_refused(headers: dict[str, str]) -> None:
    with pytest.raises(InvalidSignature) as caught:
        verify(headers, BODY, SECRET)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"[]", b"not json", b"\xff\xfe", b'{"id":"evt_1"}', b'{"id":"","type":"x"}', b'{"id":1,"type":[]}'],
)
def test_a_signed_body_that_is_no_event_is_refused_as_such(body: bytes) -> None:
    with pytest.raises(InvalidPayload, match="is not an event"):
        verify(signed(body), body, SECRET)


@pytest.mark.parametrize("value", ["[],", '{"a":', "0,", '"k":0,'])
def test_a_signed_body_is_decoded_only_if_its_values_have_a_bound(value: str) -> None:
    body = BODY[:-1] + b',"more":[' + value.encode() * 20_000
    with pytest.raises(InvalidPayload, match="more than 20000 values"):
        verify(signed(body), body, SECRET)


@pytest.mark.parametrize("data", [None, [], "text", 7, {}, {"vmId": 7}, {"a": [{"vmId": "x"}]}])
def test_data_of_any_shape_is_taken(data: object) -> None:
    body = json.dumps({"id": "evt_1", "type": "new.kind", "data": data, "extra": 1}).encode()
    event = verify(signed(body), body, SECRET)
    assert event.resource_id is None
