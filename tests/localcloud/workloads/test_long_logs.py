"""A VM that boots for ever fills neither the disk nor an answer: of its log the newest lines are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from relay_localcloud.workloads.vm_logs import KEPT

if TYPE_CHECKING:
    from tests.localcloud.conftest import StartServer


async def test_of_the_log_of_a_vm_the_newest_lines_are_kept(start_server: StartServer) -> None:
    server = start_server("--ephemeral", "--clock", "frozen")
    organization = server.seeded()
    vm = await organization.ok("POST", "/v1/orgs/{org}/vms/create", {"name": "v", "healthChecks": ["http"]})
    await server.advance(2)
    before = (await server.ok("GET", f"/workloads/{vm['id']}/logs"))["items"]
    for number in range(KEPT - len(before) + 1):
        said = {"event": "unhealthy", "reason": str(number)}
        await server.ok("POST", f"/workloads/{vm['id']}/events", said)
    lines = (await organization.call("GET", f"/v1/vms/{vm['id']}/logs")).raw.decode().splitlines()
    assert len(lines) == KEPT
    assert not [line for line in lines if "booted" in line]
    assert lines[-1].endswith(f"{KEPT - len(before)}.")


async def test_cloud_init_ran_once_for_a_disk_however_long_the_log_became(start_server: StartServer) -> None:
    server = start_server("--ephemeral", "--clock", "frozen")
    organization = server.seeded()
    asked = {"name": "v", "cloudInit": "#!/bin/sh", "healthChecks": ["http"]}
    vm = await organization.ok("POST", "/v1/orgs/{org}/vms/create", asked)
    await server.advance(2)
    for _ in range(KEPT):
        await server.ok("POST", f"/workloads/{vm['id']}/events", {"event": "unhealthy"})
    await organization.ok("POST", f"/v1/vms/{vm['id']}/restart")
    lines = (await organization.call("GET", f"/v1/vms/{vm['id']}/logs")).raw.decode().splitlines()
    assert len(lines) == KEPT + 1
    assert [line for line in lines if "once for this disk" in line] == lines[:1]
    assert "booted" in lines[-1]
