"""What of a tool config can be seen without a call: addresses, defaults and clamps (section 2, section 8)."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

import pytest

from relay_localcloud.batches.records import RecordFailure
from relay_localcloud.batches.tool_config import Tools, tools_of
from relay_localcloud.egress.reach import Reach
from relay_wire.inference import Family

PUBLIC = Reach(public=True, loopback=False)


def read(**config: Any) -> Any:
    body = {"relay": {"tool_config": {"url": "https://tools.example.com/x", **config}}}
    return tools_of(body, Family.CHAT_COMPLETIONS, allow_loopback=False)


@pytest.mark.parametrize(
    ("given", "rounds", "seconds"),
    [
        ({}, 8, 30),
        ({"max_rounds": 0, "timeout_ms": 0}, 8, 30),
        ({"max_rounds": None, "timeout_ms": None}, 8, 30),
        ({"max_rounds": 1, "timeout_ms": 1}, 1, 0.001),
        ({"max_rounds": 16, "timeout_ms": 120_000}, 16, 120),
        ({"max_rounds": 17, "timeout_ms": 120_001}, 16, 120),
        ({"max_rounds": 10**12, "timeout_ms": 10**12}, 16, 120),
    ],
)
def test_numbers_have_defaults_and_are_clamped(given: dict[str, Any], rounds: int, seconds: float) -> None:
    tools = read(**given)
    assert isinstance(tools, Tools)
    assert (tools.most_rounds, tools.timeout_seconds) == (rounds, seconds)


@pytest.mark.parametrize(
    ("relay", "field"), [("x", "body.relay"), ([], "body.relay"), ({"tool_config": []}, "body.relay.tool_config")]
)
def test_a_refusal_names_once_what_is_no_object(relay: object, field: str) -> None:
    refused = tools_of({"relay": relay}, Family.CHAT_COMPLETIONS, allow_loopback=False)
    assert refused == RecordFailure("invalid_tool_config", f"{field}: it must be a JSON object.")


def test_what_is_secret_is_not_shown() -> None:
    shown = repr(read(authorization="TOPSECRET", context={"key": "PRIVATE"}))
    assert "TOPSECRET" not in shown
    assert "PRIVATE" not in shown


def test_keys_that_are_not_known_yet_are_read_over() -> None:
    assert isinstance(read(another_key=1), Tools)


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_public_addresses_are_allowed(address: str) -> None:
    assert PUBLIC.allows(ip_address(address))


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.255.255.255",
        "10.0.0.1",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "192.0.2.1",
        "198.18.0.1",
        "::",
        "::1",
        "fe80::1",
        "fc00::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:192.168.0.1",
        "64:ff9b::a00:1",
        "64:ff9b:1::1",
        "2002:a00:1::1",
        "2001:db8::1",
    ],
)
def test_which_addresses_are_allowed(address: str) -> None:
    assert not PUBLIC.allows(ip_address(address))


def test_the_switch_admits_loopback_alone() -> None:
    both, loopback = Reach(public=True, loopback=True), Reach(public=False, loopback=True)
    for address in ("127.0.0.1", "::1", "::ffff:127.0.0.1"):
        assert both.allows(ip_address(address))
        assert loopback.allows(ip_address(address))
    for address in ("10.0.0.1", "169.254.169.254", "fe80::1"):
        assert not both.allows(ip_address(address))
        assert not loopback.allows(ip_address(address))
    assert both.allows(ip_address("8.8.8.8"))
    assert not loopback.allows(ip_address("8.8.8.8"))
