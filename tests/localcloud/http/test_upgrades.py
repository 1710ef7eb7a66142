"""Clients that ask for another protocol beside their request, as Java's do without TLS, are answered in HTTP/1.1."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.localcloud.support.gateway import running
from tests.localcloud.support.inference import CHAT, call, chat

if TYPE_CHECKING:
    from tests.localcloud.support.server import Organization

UPGRADES = {
    "the JDK's": {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAEAAEAAAAIAAAAB"},
    "Apache's": {"Connection": "Upgrade", "Upgrade": "TLS/1.2"},
}
HOOK = {"name": "hook", "url": "http://127.0.0.1:9/"}


@pytest.mark.parametrize("headers", UPGRADES.values(), ids=UPGRADES.keys())
async def test_a_body_is_read_beside_a_request_to_change_the_protocol(
    organization: Organization, headers: dict[str, str]
) -> None:
    made = await organization.ok("POST", "/v1/orgs/{org}/webhooks/create", HOOK, headers=headers)
    assert made["name"] == "hook"
    toggle = f"/v1/orgs/{{org}}/webhooks/{made['id']}/toggle"
    kept = await organization.ok("POST", toggle, {"enabled": True}, headers=headers)
    assert kept["enabled"] is True, "without its body it would toggle"
    answer = await call(organization, "POST", CHAT, chat("hello"), headers=headers, key=organization.api_key)
    assert answer.body["choices"][0]["message"]["content"] == "hello"
    workload = await running(organization)
    seen = await workload.echoed("POST", "/", raw=b"hello", headers=headers, key=organization.api_key)
    assert seen["body"] == "hello"
