"""Runner pools: section 2, "Create runner pool", and section 4, "Registry credentials and runner pools"."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.server import Organization, Server

PATH = "/v1/orgs/{org}/runner-pools"
SMALLEST = {"installationId": 1, "name": "ci", "poolRamGb": 64}
GRANT = "grant-that-nobody-else-may-see"
WHOLE = {
    **SMALLEST,
    "installationId": 9_007_199_254_740_993,
    "vcsOwner": "acme",
    "vcsOwnerType": "Organization",
    "grant": GRANT,
    "diskSizeGb": 200,
}


async def test_a_runner_pool_is_answered_with_everything_but_its_grant(organization: Organization) -> None:
    made = await organization.ok("POST", PATH, WHOLE)
    asked = {key: value for key, value in WHOLE.items() if key != "grant"}
    assert {key: made[key] for key in made if key not in {"id", "createdAt", "organizationId"}} == asked
    assert made["organizationId"] == organization.id
    assert await organization.ok("GET", f"{PATH}/{made['id']}") == made
    assert await organization.ok("GET", PATH) == {"items": [made]}


async def test_a_runner_pool_needs_an_installation_a_name_and_its_memory(organization: Organization) -> None:
    made = await organization.ok("POST", PATH, SMALLEST)
    assert sorted(made) == ["createdAt", "diskSizeGb", "id", "installationId", "name", "organizationId", "poolRamGb"]
    assert made["diskSizeGb"] == 50


@pytest.mark.parametrize(
    ("change", "answered"),
    [
        ({"installationId": None}, 400),
        ({"installationId": "1"}, 400),
        ({"installationId": 0}, 400),
        ({"installationId": 2**63}, 400),
        ({"name": None}, 400),
        ({"name": ""}, 400),
        ({"name": "x" * 64}, 400),
        ({"poolRamGb": None}, 400),
        ({"poolRamGb": 0}, 400),
        ({"poolRamGb": 1.5}, 400),
        ({"diskSizeGb": 0}, 400),
        ({"vcsOwner": ""}, 400),
        ({"vcsOwner": "acme", "vcsOwnerType": 7}, 400),
        ({"vcsOwnerType": ""}, 400),
        ({"grant": 7}, 400),
        ({"grant": "x" * 4097}, 400),
    ],
)
async def test_a_runner_pool_that_makes_no_sense_is_refused(
    organization: Organization, change: dict[str, object], answered: int
) -> None:
    assert (await organization.call("POST", PATH, {**SMALLEST, **change})).refusal[0] == answered
    assert await organization.ok("GET", PATH) == {"items": []}


async def test_the_name_of_a_runner_pool_is_taken_until_it_is_deleted(
    server: Server, organization: Organization
) -> None:
    made = await organization.ok("POST", PATH, SMALLEST)
    assert (await organization.call("POST", PATH, WHOLE)).refusal == (409, "conflict")
    other = await server.organization()
    await other.ok("POST", PATH, SMALLEST)
    for method in ("GET", "DELETE"):
        foreign = f"/v1/orgs/{other.id}/runner-pools/{made['id']}"
        assert (await other.call(method, foreign)).refusal == (404, "not_found")
        assert (await organization.call(method, foreign)).refusal == (403, "forbidden")
    assert (await organization.call("DELETE", f"{PATH}/{made['id']}")).status == 204
    assert (await organization.call("GET", f"{PATH}/{made['id']}")).refusal == (404, "not_found")
    await organization.ok("POST", PATH, WHOLE)


async def test_runner_pools_survive_a_kill_and_their_grants_are_encrypted(
    start_server: StartServer, tmp_path: Path
) -> None:
    server = start_server("--state", str(tmp_path), "--clock", "frozen")
    made = await server.seeded().ok("POST", PATH, WHOLE)
    assert GRANT not in (await server.control("GET", "/export")).raw.decode()
    server.kill()
    again = start_server("--state", str(tmp_path)).seeded()
    assert await again.ok("GET", PATH) == {"items": [made]}
