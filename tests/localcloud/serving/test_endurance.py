"""Deployments when the balance runs out, when faults are injected, and when the process is killed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.localcloud.support.deployments import (
    DEPLOYMENTS,
    answered_by,
    change,
    create,
    delete,
    get,
    running,
    status,
    try_change,
)
from tests.localcloud.support.past import keep_the_past
from tests.localcloud.support.server import Organization
from tests.localcloud.support.workloads import (
    UNTIL_RUNNING,
    set_organization,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.server import Server

H100_CENTS = 249
HOUR = 3600


async def test_when_the_balance_runs_out_it_stops_until_it_is_scaled_again(organization: Organization) -> None:
    await set_organization(organization, balanceCents=H100_CENTS)
    deployment = await running(organization, backendWeight=1)
    await organization.server.advance(2 * HOUR)
    shown = await get(organization, deployment)
    assert (shown["status"], shown["replicas"], shown["backendWeight"]) == ("stopped", [], 1)
    assert shown["statusReason"] == "The balance ran out: add funds, then send replicasDesired again."
    answer = await try_change(organization, deployment, replicasDesired=1)
    assert answer.refusal == (402, "INSUFFICIENT_BALANCE")
    await set_organization(organization, balanceCents=100_000)
    shown = await change(organization, deployment, backendWeight=2)
    assert (shown["status"], "funds were added since" in shown["statusReason"]) == ("stopped", True)
    assert (await change(organization, deployment, replicasDesired=1))["status"] == "provisioning"
    await organization.server.advance(UNTIL_RUNNING)
    shown = await get(organization, deployment)
    assert (shown["status"], "statusReason" in shown) == ("running", False)


async def test_a_stopped_deployment_can_be_deleted(organization: Organization) -> None:
    await set_organization(organization, balanceCents=H100_CENTS)
    deployment = await running(organization)
    await organization.server.advance(2 * HOUR)
    await delete(organization, deployment)
    assert await status(organization, deployment) == "gone"


async def test_another_price_than_the_catalogs_is_locked(organization: Organization) -> None:
    fault = {"operation": f"POST {DEPLOYMENTS}", "organizationId": organization.id, "effect": {"priceFactor": 2.0}}
    await organization.server.ok("POST", "/faults", {**fault, "count": 1})
    assert (await create(organization))["pricePerHourCents"] == 2 * H100_CENTS


async def test_a_stale_list_lacks_what_is_new(organization: Organization) -> None:
    await keep_the_past(organization.server)
    await organization.server.advance(10)
    made = await create(organization)
    effect = {"staleSeconds": 5}
    for operation in (f"GET {DEPLOYMENTS}", f"GET {DEPLOYMENTS}/{{id}}"):
        fault = {"operation": operation, "organizationId": organization.id, "count": 1, "effect": effect}
        await organization.server.ok("POST", "/faults", fault)
    assert (await organization.ok("GET", DEPLOYMENTS))["items"] == []
    assert await status(organization, made["id"]) == "gone"
    assert await status(organization, made["id"]) == "provisioning"


async def test_deployments_survive_a_kill(start_server: StartServer, tmp_path: Path) -> None:
    arguments = ("--state", str(tmp_path), "--clock", "frozen")
    first = start_server(*arguments)
    organization = first.seeded()
    running_id = await running(organization, backendWeight=1, replicasDesired=2)
    starting = await create(organization, nodePool="b")
    draining = await running(organization, nodePool="c")
    await delete(organization, draining)
    before = [await get(organization, each) for each in (running_id, starting["id"], draining)]
    first.kill()
    second = start_server(*arguments)
    organization = second.seeded()
    assert [await get(organization, each) for each in (running_id, starting["id"], draining)] == before
    assert await answered_by(organization) == running_id
    await second.advance(UNTIL_RUNNING)
    after = [await status(organization, each) for each in (running_id, starting["id"], draining)]
    assert after == ["running", "running", "gone"]


async def test_an_exported_deployment_goes_on_elsewhere(start_server: StartServer, organization: Organization) -> None:
    deployment = await running(organization)
    starting = await create(organization, nodePool="b")
    document = await organization.server.ok("GET", "/export")
    second: Server = start_server("--ephemeral", "--clock", "frozen")
    await second.ok("POST", "/import", document)
    elsewhere = Organization(second, organization.id, organization.api_key, "", "")
    await second.advance(UNTIL_RUNNING)
    assert [await status(elsewhere, each) for each in (deployment, starting["id"])] == ["running", "running"]
