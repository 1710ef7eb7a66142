"""Connections through the gateway end with what let them in: a workload that runs, and a key that is valid."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from aiohttp import web

from tests.localcloud.support import clusters
from tests.localcloud.support.gateway import (
    HANDSHAKE,
    Workload,
    connection,
    endpoint,
    head_of,
    opening,
    running,
    set_upstream,
)
from tests.localcloud.support.workloads import act, happens, own_node, running_pod

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.localcloud.support.gateway import Upstream
    from tests.localcloud.support.server import Organization

KEYS = "/v1/orgs/{org}/api-keys"
GOING_AWAY = b"\x88\x02\x03\xe9"
"""A closing frame with the code 1001."""


async def stops(organization: Organization, workload: Workload, key: Any) -> None:
    del key
    await act(organization, workload.id, "stop")


async def is_terminated(organization: Organization, workload: Workload, key: Any) -> None:
    del key
    await act(organization, workload.id, "terminate")


async def loses_its_key(organization: Organization, workload: Workload, key: Any) -> None:
    del workload
    await organization.ok("DELETE", f"{KEYS}/{key['id']}")


async def outlives_its_key(organization: Organization, workload: Workload, key: Any) -> None:
    del workload, key
    await organization.server.advance(60)


ENDINGS = pytest.mark.parametrize("ends", [stops, is_terminated, loses_its_key, outlives_its_key])


async def new_key(organization: Organization) -> Any:
    """A key that is valid for a minute."""
    return await organization.ok("POST", f"{KEYS}/create", {"name": "short", "expiresInSeconds": 60})


def frame(payload: bytes) -> bytes:
    """A text message as a client sends it, masked with nothing."""
    return bytes([0x81, 0x80 | len(payload)]) + bytes(4) + payload


@asynccontextmanager
async def socket(workload: Workload, key: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A WebSocket that has said something and was answered."""
    async with connection(workload) as (reader, writer):
        writer.write(opening(workload, "GET", "/", f"x-api-key: {key}", *HANDSHAKE))
        assert (await head_of(reader))[0] == 101
        await is_alive(reader, writer)
        yield reader, writer


async def is_alive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(frame(b"there?"))
    assert await reader.readexactly(8) == b"\x81\x06there?"


async def talk(request: web.Request) -> web.StreamResponse:
    """Repeats messages, or streams for ever."""
    if request.headers.get("Upgrade"):
        near = web.WebSocketResponse()
        await near.prepare(request)
        async for message in near:
            await near.send_str(message.data)
        return near
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(b"begun")
    await asyncio.Event().wait()
    return response


@pytest.fixture
async def workload(organization: Organization, upstream: Upstream) -> Workload:
    """A private pod whose image the upstream answers for."""
    upstream.respond = talk
    await set_upstream(organization.server, f"image-of-{organization.id}", upstream.url)
    return await running(organization, image=f"image-of-{organization.id}")


@ENDINGS
async def test_a_websocket_ends_though_its_client_says_nothing(
    organization: Organization, upstream: Upstream, workload: Workload, ends: Any
) -> None:
    key = await new_key(organization)
    async with socket(workload, key["key"]) as (reader, _):
        await ends(organization, workload, key)
        assert await reader.read() == GOING_AWAY
    assert upstream.received


async def test_a_websocket_ends_with_the_key_of_whoever_its_workload_was_transferred_to(
    organization: Organization,
) -> None:
    workload = await endpoint(organization, await running_pod(organization, public=True))
    receiver = await organization.server.organization()
    key = await new_key(receiver)
    async with socket(workload, key["key"]) as (reader, writer):
        offered = {"workloadId": workload.id, "toOrganizationId": receiver.id}
        transfer = await organization.server.ok("POST", "/transfers", offered)
        await receiver.ok("POST", f"/v1/transfers/{transfer['id']}/accept", {})
        await receiver.ok("POST", f"/v1/vms/{workload.id}/visibility", {"public": False})
        await is_alive(reader, writer)
        await loses_its_key(receiver, workload, key)
        assert await reader.read() == GOING_AWAY


@ENDINGS
async def test_the_echo_of_a_websocket_ends(organization: Organization, ends: Any) -> None:
    workload, key = await running(organization), await new_key(organization)
    async with socket(workload, key["key"]) as (reader, _):
        await ends(organization, workload, key)
        assert await reader.read() == GOING_AWAY


@ENDINGS
async def test_a_stream_is_broken_off_at_both_ends(
    organization: Organization, upstream: Upstream, workload: Workload, ends: Any
) -> None:
    key = await new_key(organization)
    async with connection(workload) as (reader, writer):
        writer.write(opening(workload, "GET", "/", f"Authorization: Bearer {key['key']}"))
        assert (await head_of(reader))[1]["transfer-encoding"] == "chunked"
        assert await reader.readexactly(10) == b"5\r\nbegun\r\n"
        await ends(organization, workload, key)
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await reader.readexactly(1)
        await upstream.abandoned.wait()


async def test_an_upload_under_way_is_broken_off(organization: Organization) -> None:
    workload = await running(organization)
    async with connection(workload) as (reader, writer):
        writer.write(opening(workload, "POST", "/", f"x-api-key: {organization.api_key}", "Content-Length: 9"))
        writer.write(b"begun")
        async with socket(workload, organization.api_key):  # what was sent before it has arrived
            await act(organization, workload.id, "stop")
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await reader.readexactly(1)


async def test_what_has_not_changed_for_a_connection_lets_it_be(organization: Organization) -> None:
    workload, other = await running(organization), await running(organization)
    key = await new_key(organization)
    async with socket(workload, organization.api_key) as (reader, writer):
        await act(organization, other.id, "stop")
        await organization.ok("DELETE", f"{KEYS}/{key['id']}")
        await organization.server.advance(60)
        await is_alive(reader, writer)


async def test_what_is_under_way_at_a_cluster_goes_on_without_a_healthy_replica_until_it_stops(
    organization: Organization,
) -> None:
    await own_node(organization)
    cluster_id = await clusters.running(organization)
    url = (await clusters.summary(organization, cluster_id))["endpointUrl"]
    workload = Workload(organization, cluster_id, urlsplit(url).netloc)
    async with socket(workload, organization.api_key) as (reader, writer):
        await happens(organization, cluster_id, "unhealthy")
        assert (await workload.call("GET", "/")).refusal == (503, "workload_not_running")
        await is_alive(reader, writer)
        await clusters.act(organization, cluster_id, "stop")
        assert await reader.read() == GOING_AWAY


async def test_a_public_workload_that_becomes_private_keeps_only_those_with_a_key(organization: Organization) -> None:
    workload = await running(organization, public=True)
    async with socket(workload, "") as (stranger, _), socket(workload, organization.api_key) as (reader, writer):
        await organization.ok("POST", f"/v1/vms/{workload.id}/visibility", {"public": False})
        assert await stranger.read() == GOING_AWAY
        await is_alive(reader, writer)
