"""States of former versions open and go on; the fixtures were written by releases that had these versions."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from relay_localcloud.kernel.schema import SCHEMA_VERSION
from tests.localcloud.support import clusters
from tests.localcloud.support.provider import community_node
from tests.localcloud.support.server import Organization, Server
from tests.localcloud.support.workloads import (
    DAY,
    act,
    balance,
    new_pod,
    remove_shared_nodes,
    running_pod,
    set_organization,
    status,
    usage,
)
from tests.support.eventually import PATIENCE_SECONDS

if TYPE_CHECKING:
    from tests.localcloud.conftest import StartServer

FORMER = Path(__file__).parent / "upgrades"
KEY = "or_9c2fe21996c9803bea8b2878868b3e5eef1a73842eb791d4"
RUNNING, STOPPED, CLUSTER = "pod_e411b3a19a6f3bcdc95c", "pod_d3898a98fba37b063aeb", "cluster_1b2c9ba57f77582e91ce"

# The state was written on 2026-12-20 at 02:00 with 676 cents an hour burning; its meter was read at 01:00.
READ_UNITS, BURN, HOUR = 2_572_570, 676, 3600
DECEMBER = READ_UNITS + BURN * (11 * 24 + 23) * HOUR


def state_of_version_1(folder: Path) -> Path:
    """A state directory as version 1 left it."""
    folder.mkdir()
    with closing(sqlite3.connect(folder / "state.db")) as state:
        state.executescript((FORMER / "version_1.sql").read_text())
    return folder


async def opened(how: str, start_server: StartServer, folder: Path) -> Organization:
    """The seeded organization of version 1, in a cloud that got the state in this way."""
    export = FORMER / "version_1.json"
    match how:
        case "state":
            server = start_server("--state", str(state_of_version_1(folder / "state")))
        case "seed":
            server = start_server("--ephemeral", "--seed", str(export))
        case _:
            server = start_server("--ephemeral")
            await server.ok("POST", "/import", raw=export.read_bytes())
    return Organization(server, "org_1c0a7a0f5b6ca5e75ccd", KEY, "", "")


async def test_attempts_know_how_large_they_are(start_server: StartServer, tmp_path: Path) -> None:
    organization = await opened("state", start_server, tmp_path)
    tables = (await organization.server.ok("GET", "/export"))["tables"]
    bodies = {delivery["id"]: delivery["body"] for delivery in tables["webhook_deliveries"]}
    attempts = tables["webhook_attempts"]
    assert len(attempts) == 4
    for attempt in attempts:
        assert attempt["size"] == 300 + len(attempt["error"] or "") + len(bodies[attempt["delivery_id"]])


@pytest.mark.parametrize("how", ["state", "seed", "import"])
async def test_a_state_of_version_1_opens_works_and_is_billed_on(
    start_server: StartServer, tmp_path: Path, how: str
) -> None:
    organization = await opened(how, start_server, tmp_path)
    server = organization.server
    assert (await server.ok("GET", "/clock"))["now"] == "2026-12-20T02:00:00.000000Z"
    assert [await status(organization, pod) for pod in (RUNNING, STOPPED)] == ["running", "stopped"]
    assert (await organization.ok("GET", f"/v1/clusters/{CLUSTER}"))["activeReplicas"] == 2
    shown = await balance(organization)
    assert (shown["balanceCents"], shown["accruedUsageCents"]) == (100_000, (READ_UNITS + BURN * HOUR) // HOUR)
    assert (await usage(organization))["burnPerHourCents"] == BURN
    (webhook,) = (await organization.ok("GET", "/v1/orgs/{org}/webhooks"))["items"]
    assert webhook["name"] == "hook"

    await server.ok("POST", "/clock", {"set": "2027-01-01T00:09:59Z"})
    before = await balance(organization)
    assert "usage" not in [item["type"] for item in before["transactions"]]
    assert before["accruedUsageCents"] == (DECEMBER + BURN * 599) // HOUR
    await server.advance(1)
    after = await balance(organization)
    debit = next(item for item in after["transactions"] if item["type"] == "usage")
    assert (debit["amountCents"], debit["description"]) == (-(DECEMBER // HOUR), "Usage of 2026-12")
    assert after["accruedUsageCents"] == (DECEMBER + BURN * 600) // HOUR - DECEMBER // HOUR
    assert after["balanceCents"] == sum(item["amountCents"] for item in after["transactions"])

    await server.ok("PATCH", "/settings", {"ipAddresses": 3})  # the pod that runs, and two replicas
    refused = await organization.call("POST", "/v1/pods", {"image": "a"})
    assert refused.refusal == (503, "INSUFFICIENT_IP_CAPACITY")
    await act(organization, RUNNING, "terminate")
    await act(organization, STOPPED, "restart")
    await server.advance(2)
    assert await status(organization, STOPPED) == "running"
    assert "Traceback" not in server.log


@pytest.mark.parametrize("how", ["state", "import"])
async def test_auto_recharge_that_version_1_kept_is_acted_on(
    start_server: StartServer, tmp_path: Path, how: str
) -> None:
    organization = await opened(how, start_server, tmp_path)
    below = -(-((100_000 - 50_000 + 1) * HOUR - READ_UNITS) // BURN)  # seconds since 01:00
    assert below == 3 * 24 * HOUR + 54 * 60 + 32
    await organization.server.ok("POST", "/clock", {"set": "2026-12-23T01:54:33Z"})
    assert (await balance(organization))["balanceCents"] == 100_000
    await organization.server.advance(1)
    shown = await balance(organization)
    assert [(item["type"], item["amountCents"]) for item in shown["transactions"]] == [
        ("deposit", 20_000),
        ("credit", 100_000),
    ]
    (card,) = (await organization.ok("GET", "/v1/orgs/{org}/billing/payment-methods"))["items"]
    assert (card["brand"], card["last4"]) == ("visa", "4242")


async def test_what_version_6_read_run_by_run_is_told_from_sums(start_server: StartServer) -> None:
    server = start_server("--ephemeral", "--clock", "frozen")
    organization = server.seeded()
    await remove_shared_nodes(server)
    await set_organization(organization, provider=True, balanceCents=10**9)
    await community_node(organization, gpuCount=4)
    ended, _ = await running_pod(organization), await running_pod(organization, gpuCount=2)
    await server.advance(40 * DAY + 12_345)
    await act(organization, ended, "terminate")
    await server.advance(3 * DAY + 1)
    paths = [
        f"/v1/orgs/{{org}}/{path}" for path in ("billing/usage", "billing/usage/daily?days=60", "provider/earnings")
    ]
    told = [await organization.ok("GET", path) for path in paths]
    document = await server.ok("GET", "/export")
    assert document["tables"].pop("usage_days")
    assert document["tables"].pop("past_earnings")
    await server.ok("POST", "/import", {**document, "schemaVersion": 6})
    assert [await organization.ok("GET", path) for path in paths] == told


async def test_an_upgraded_state_is_of_this_version_and_is_upgraded_once(
    start_server: StartServer, tmp_path: Path
) -> None:
    folder = state_of_version_1(tmp_path / "state")
    first = start_server("--state", str(folder))
    exported = await first.ok("GET", "/export")
    first.kill()
    second = start_server("--state", str(folder))
    again = await second.ok("GET", "/export")
    for table in exported["tables"].keys() - {"sessions", "meta", "api_keys"}:
        assert again["tables"][table] == exported["tables"][table], table
    assert exported["schemaVersion"] == again["schemaVersion"] == SCHEMA_VERSION


async def test_columns_and_indexes_that_a_state_lacks_are_added(start_server: StartServer, tmp_path: Path) -> None:
    folder = tmp_path / "state"
    first = start_server("--state", str(folder), "--clock", "frozen")
    organization = await first.organization()
    whole = (await first.ok("GET", "/export"))["tables"]["organizations"]
    first.stop()
    with closing(sqlite3.connect(folder / "state.db")) as former:
        for column in ("batch_access", "deposit_cap_cents", "monthly_spend_limit_cents"):
            former.execute(f"ALTER TABLE organizations DROP COLUMN {column}")
        former.execute("DROP INDEX usage_of_organization")
    second = start_server("--state", str(folder))
    rows = (await second.ok("GET", "/export"))["tables"]["organizations"]
    assert [dict(sorted(row.items())) for row in rows] == [dict(sorted(row.items())) for row in whole]
    assert organization.id in [row["id"] for row in rows]
    second.stop()
    with closing(sqlite3.connect(folder / "state.db")) as state:
        indexes = {name for (name,) in state.execute("SELECT name FROM sqlite_master WHERE type = 'index'")}
    assert "usage_of_organization" in indexes


async def test_columns_that_an_export_lacks_are_added(start_server: StartServer) -> None:
    server = start_server("--ephemeral", "--clock", "frozen")
    await server.organization()
    document = await server.ok("GET", "/export")
    whole = [dict(row) for row in document["tables"]["organizations"]]
    for row in document["tables"]["organizations"]:
        for column in ("batch_access", "deposit_cap_cents", "monthly_spend_limit_cents"):
            del row[column]
    await server.ok("POST", "/import", document)
    assert (await server.ok("GET", "/export"))["tables"]["organizations"] == whole


def test_a_state_that_cannot_be_upgraded_is_refused_and_stays_as_it_was(tmp_path: Path) -> None:
    folder = state_of_version_1(tmp_path / "state")
    with closing(sqlite3.connect(folder / "state.db")) as state:
        state.execute("CREATE VIEW charges AS SELECT 1")
        before = list(state.iterdump())
    server = Server(("--state", str(folder)))
    with pytest.raises(AssertionError, match="ended before it was ready"):
        server.start()
    assert server.child.wait(timeout=PATIENCE_SECONDS) == 1
    server.stop()
    assert f"relay-localcloud: The state directory {folder} cannot be used: " in server.log
    assert "Traceback" not in server.log
    with closing(sqlite3.connect(folder / "state.db")) as state:
        assert list(state.iterdump()) == before
        assert state.execute("PRAGMA user_version").fetchone() == (1,)


BAD_TABLES: list[dict[str, Any]] = [
    {"organizations": [{"id": 1}]},
    {"organizations": [{"id": "org_a"}, {"name": "b"}]},
    {"organizations": [{"id": "org_a", "later": 1}]},
    {"organizations": [{}]},
    {"organizations": [{"id": "org_a", "name": {}}]},
    {"due": [{"id": 1}, {"id": 1}]},
    {"due": [{"id": 2**70}]},
    {"nothing": []},
    {"accounts": [{"organization_id": "org_a", "balance_cents": "1"}]},
]


@pytest.mark.parametrize("tables", BAD_TABLES)
@pytest.mark.parametrize("version", range(1, SCHEMA_VERSION))
async def test_an_export_that_fits_no_version_is_400_and_changes_nothing(
    server: Server, tables: dict[str, Any], version: int
) -> None:
    before = await server.ok("GET", "/export")
    answer = await server.control("POST", "/import", {"schemaVersion": version, "tables": tables})
    assert answer.refusal == (400, "invalid_request")
    assert await server.ok("GET", "/export") == before
    assert "Traceback" not in server.log


@pytest.mark.parametrize("version", [0, -1, SCHEMA_VERSION + 1, True, 1.0, "1", None, 2**70])
async def test_an_export_of_no_known_version_is_400(server: Server, version: object) -> None:
    answer = await server.control("POST", "/import", {"schemaVersion": version, "tables": {}})
    assert answer.refusal == (400, "invalid_request")
    assert "schemaVersion" in answer.body["error"]


async def test_what_had_ended_in_a_state_of_version_5_is_forgotten(start_server: StartServer, tmp_path: Path) -> None:
    folder = ("--state", str(tmp_path / "state"), "--clock", "frozen")
    server = start_server(*folder)
    organization = await server.organization()
    cluster = await clusters.running(organization, replicaCount=2)
    pod = (await new_pod(organization))["id"]
    await act(organization, pod, "terminate")
    assert server.stop() == 0
    with closing(sqlite3.connect(tmp_path / "state" / "state.db")) as former, former:
        former.execute("UPDATE replicas SET terminated_at = 1 WHERE sequence = (SELECT min(sequence) FROM replicas)")
        former.execute("DELETE FROM due WHERE kind = 'forget'")
        former.execute("PRAGMA user_version=5")
    again = replace(organization, server=start_server(*folder))
    tables = (await again.server.ok("GET", "/export"))["tables"]
    assert [row["cluster_id"] for row in tables["replicas"]] == [cluster]
    assert pod in [row["id"] for row in tables["workloads"]]
    await again.server.advance(DAY)
    assert pod not in [row["id"] for row in (await again.server.ok("GET", "/export"))["tables"]["workloads"]]
