"""The log of a VM as text; its path is assumed."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING

import aiohttp
import pytest

from relay_localcloud.workloads.followers import MOST_FOLLOWED
from tests.localcloud.support.people import session_of
from tests.localcloud.support.workloads import UNTIL_RUNNING, act, new_pod
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.server import Organization, Server

    Credential = tuple[str, Callable[[str], Awaitable[object]]]
    """A key or session token, and what ends its right to read the log of this VM."""

BODY = {"name": "box", "gpuModelId": "h100", "cloudInit": "#!/bin/sh"}


async def vm_that_booted(organization: Organization, boots: int = 1) -> str:
    vm = await organization.ok("POST", "/v1/orgs/{org}/vms/create", BODY)
    await organization.server.advance(UNTIL_RUNNING)
    for _ in range(boots - 1):
        await act(organization, vm["id"], "restart")
    return str(vm["id"])


def asked(
    organization: Organization, vm_id: str, query: str = "", key: str | None = None
) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
    url = f"{organization.server.url}/v1/vms/{vm_id}/logs{query}"
    return aiohttp.request("GET", url, headers={"Authorization": f"Bearer {key or organization.api_key}"})


async def log(organization: Organization, vm_id: str, query: str = "") -> str:
    async with asked(organization, vm_id, query) as answer:
        assert (answer.status, answer.content_type) == (200, "text/plain")
        return await answer.text()


async def test_a_log_is_text_and_its_tail_the_last_lines(organization: Organization) -> None:
    vm_id = await vm_that_booted(organization, boots=2)
    lines = (await log(organization, vm_id)).splitlines()
    said = ["boot: The VM booted.", "cloud-init: The script of 9 characters ran as root, once for this disk."]
    assert [line.partition(" ")[2] for line in lines] == [*said, said[0]]
    assert lines[0].partition(" ")[0] == (await organization.server.ok("GET", "/clock"))["now"]
    for tail in (0, 1, 2, 3, 9):
        assert (await log(organization, vm_id, f"?tail={tail}")).splitlines() == lines[max(0, 3 - tail) :]


async def test_a_log_is_followed_until_the_vm_is_terminated(organization: Organization) -> None:
    vm_id = await vm_that_booted(organization)
    async with asked(organization, vm_id, "?tail=0&follow=true") as answer:
        for _ in range(2):
            await act(organization, vm_id, "restart")
            assert (await answer.content.readline()).endswith(b" boot: The VM booted.\n")
        await act(organization, vm_id, "terminate")
        assert await answer.content.read() == b""
    assert await log(organization, vm_id) == await log(organization, vm_id, "?follow=true") == ""


async def short_lived(organization: Organization) -> Credential:
    asked_for = {"name": "short", "expiresInSeconds": 60}
    made = await organization.ok("POST", "/v1/orgs/{org}/api-keys/create", asked_for)
    return made["key"], lambda _: organization.server.advance(60)


async def revocable(organization: Organization) -> Credential:
    made = await organization.ok("POST", "/v1/orgs/{org}/api-keys/create", {"name": "revocable"})
    return made["key"], lambda _: organization.ok("DELETE", f"/v1/orgs/{{org}}/api-keys/{made['id']}")


async def of_a_former_member(organization: Organization) -> Credential:
    person = await session_of(organization, "viewer")
    return person.token, lambda _: organization.ok("DELETE", f"/v1/orgs/{{org}}/members/{person.id}")


async def of_the_former_owner(organization: Organization) -> Credential:
    return organization.api_key, partial(given_away, organization.server)


async def given_away(server: Server, vm_id: str) -> None:
    """Another organization gets the VM, and restarts it."""
    other = await server.organization()
    offered = await server.ok("POST", "/transfers", {"workloadId": vm_id, "toOrganizationId": other.id})
    await other.ok("POST", f"/v1/transfers/{offered['id']}/accept", {})
    await act(other, vm_id, "restart")


@pytest.mark.parametrize("credential", [short_lived, revocable, of_a_former_member, of_the_former_owner])
async def test_a_followed_log_breaks_off_once_its_request_would_be_refused(
    organization: Organization, credential: Callable[[Organization], Awaitable[Credential]]
) -> None:
    vm_id = await vm_that_booted(organization)
    key, end = await credential(organization)
    async with asked(organization, vm_id, "?tail=1&follow=true", key) as answer:
        assert b" cloud-init: " in await answer.content.readline()
        await end(vm_id)
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.content.read()


async def test_a_stale_log_is_followed_with_a_key_that_is_newer(organization: Organization) -> None:
    vm_id = await vm_that_booted(organization)
    stale = {"operation": "GET /v1/vms/{id}/logs", "effect": {"staleSeconds": 30}, "organizationId": organization.id}
    made = await organization.server.ok("POST", "/faults", stale)
    await organization.server.advance(30)
    key, revoke = await revocable(organization)
    async with asked(organization, vm_id, "?tail=1&follow=true", key) as answer:
        assert b" cloud-init: " in await answer.content.readline()
        await act(organization, vm_id, "restart")
        await organization.server.advance(30)
        assert (await answer.content.readline()).endswith(b" boot: The VM booted.\n")
        await revoke(vm_id)
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.content.read()
    await organization.server.ok("DELETE", f"/faults/{made['id']}")


async def test_an_organization_follows_a_limited_number_of_logs_at_once(organization: Organization) -> None:
    vm_id, other = await vm_that_booted(organization), await organization.server.organization()
    others_id = await vm_that_booted(other)
    async with AsyncExitStack() as stack:
        follow = partial(asked, organization, vm_id, "?follow=true")
        answers = [await stack.enter_async_context(follow()) for _ in range(MOST_FOLLOWED)]
        assert {answer.status for answer in answers} == {200}
        refused = await organization.call("GET", f"/v1/vms/{vm_id}/logs?follow=true")
        assert refused.refusal == (429, "rate_limited")
        assert "end one of them" in refused.body["error"]
        assert await log(organization, vm_id) != ""
        async with asked(other, others_id, "?follow=true") as allowed:
            assert allowed.status == 200
        answers[0].close()

        async def followed_again() -> int:
            async with follow() as answer:
                return answer.status

        await eventually(followed_again, lambda status: status == 200)
        await act(organization, vm_id, "restart")
        for answer in answers[1:]:
            assert len([await answer.content.readline() for _ in range(3)]) == 3
        await act(organization, vm_id, "terminate")
        assert {await answer.content.read() for answer in answers[1:]} == {b""}


async def test_a_cloud_that_stops_breaks_off_what_is_followed_and_complains_of_nothing(
    start_server: StartServer,
) -> None:
    server = start_server("--ephemeral", "--clock", "frozen")
    organization = server.seeded()
    vm_id = await vm_that_booted(organization)
    async with asked(organization, vm_id, "?tail=1&follow=true") as answer:
        assert b" cloud-init: " in await answer.content.readline()
        assert await asyncio.to_thread(server.stop) == 0
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.content.read()
    assert server.complaints == []


async def test_a_pod_has_no_log(organization: Organization) -> None:
    pod = await new_pod(organization)
    assert await log(organization, pod["id"]) == ""


@pytest.mark.parametrize("query", ["?tail=-1", "?tail=x", "?tail=10001", "?follow=perhaps"])
async def test_a_query_that_makes_no_sense_is_400(organization: Organization, query: str) -> None:
    pod = await new_pod(organization)
    assert (await organization.call("GET", f"/v1/vms/{pod['id']}/logs{query}")).refusal == (400, "invalid_request")


async def test_the_log_of_another_organization_reads_as_absent(server: Server, organization: Organization) -> None:
    vm_id = await vm_that_booted(organization)
    other = await server.organization()
    assert (await other.call("GET", f"/v1/vms/{vm_id}/logs")).refusal == (404, "not_found")
