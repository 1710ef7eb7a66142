"""The log of a VM as text; its path is assumed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aiohttp
import pytest

from tests.localcloud.support.workloads import UNTIL_RUNNING, act, new_pod

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from tests.localcloud.support.server import Organization, Server

BODY = {"name": "box", "gpuModelId": "h100", "cloudInit": "#!/bin/sh"}


async def vm_that_booted(organization: Organization, boots: int = 1) -> str:
    vm = await organization.ok("POST", "/v1/orgs/{org}/vms/create", BODY)
    await organization.server.advance(UNTIL_RUNNING)
    for _ in range(boots - 1):
        await act(organization, vm["id"], "restart")
    return str(vm["id"])


def asked(
    organization: Organization, vm_id: str, query: str = ""
) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
    url = f"{organization.server.url}/v1/vms/{vm_id}/logs{query}"
    return aiohttp.request("GET", url, headers={"Authorization": f"Bearer {organization.api_key}"})


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
