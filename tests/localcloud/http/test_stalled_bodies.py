"""A body of which nothing comes any more is answered 408 at every operation that reads one, and the server goes on."""

from __future__ import annotations

import asyncio
import http.client
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from tests.support.eventually import PATIENCE_SECONDS

if TYPE_CHECKING:
    from tests.localcloud.support.server import Organization

OPERATIONS = {
    "a create": ("managementUrl", "POST", "/v1/pods"),
    "a change": ("managementUrl", "PATCH", "/v1/orgs/{org}"),
    "an optional body": ("managementUrl", "POST", "/v1/orgs/{org}/webhooks/{webhook}/toggle"),
    "inference": ("inferenceUrl", "POST", "/v1/chat/completions"),
    "a batch": ("inferenceUrl", "POST", "/v1/batches"),
    "a control call": ("managementUrl", "POST", "/_localcloud/faults"),
    "an import": ("managementUrl", "POST", "/_localcloud/import"),
    "a form of the console": ("managementUrl", "POST", "/console/clock/advance"),
}


def answer_to_a_part(url: str, method: str, path: str, headers: dict[str, str]) -> tuple[int, bool]:
    """The status that a body gets whose second byte never comes, and whether that ends the connection."""
    parts = urlsplit(url)
    assert parts.hostname
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=PATIENCE_SECONDS)
    connection.putrequest(method, path)
    for name, value in {**headers, "Content-Length": "1000"}.items():
        connection.putheader(name, value)
    connection.endheaders(b"{")
    answer = connection.getresponse()
    answer.read()
    return answer.status, answer.will_close


@pytest.mark.parametrize("kind", OPERATIONS)
async def test_a_body_that_stands_still_is_408(organization: Organization, kind: str) -> None:
    server = organization.server
    made = {"name": "hook", "url": "http://127.0.0.1:9/"}
    webhook = await organization.ok("POST", "/v1/orgs/{org}/webhooks/create", made)
    listening, method, path = OPERATIONS[kind]
    path = path.format(org=organization.id, webhook=webhook["id"])
    headers = {"Authorization": f"Bearer {organization.api_key}", "Origin": server.url}
    await server.ok("PATCH", "/settings", {"stalledBodySeconds": 0.2})
    try:
        url = server.ready[listening]
        assert await asyncio.to_thread(answer_to_a_part, url, method, path, headers) == (408, True)
    finally:
        await server.ok("PATCH", "/settings", {"stalledBodySeconds": 30})
    assert (await organization.ok("GET", "/v1/whoami"))["organizationId"] == organization.id
