"""The past takes no memory unless a fault reads it, and then a bounded part."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from relay_localcloud.kernel.history import LARGEST
from tests.localcloud.support.past import keep_the_past
from tests.localcloud.support.server import Server
from tests.localcloud.support.workloads import new_pod, status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.server import Organization

FROZEN = ("--ephemeral", "--clock", "frozen")
ENVIRONMENT = {"LARGE": "x" * 130_000}
CHANGES = 2 * LARGEST // len(ENVIRONMENT["LARGE"])
"""Of one pod: their rows are twice what the past may take."""
LITTLE = LARGEST // 4


async def change_often(organization: Organization, pod_id: str) -> int:
    """The growth that many changes of a pod with a large environment cause, in bytes."""
    before = organization.server.resident
    for nr in range(CHANGES):
        await organization.ok("POST", f"/v1/vms/{pod_id}/visibility", {"public": nr % 2 == 0})
    return organization.server.resident - before


@pytest.fixture
def unused() -> Iterator[Server]:
    """A local cloud whose memory no other test has grown."""
    server = Server(FROZEN)
    server.start()
    yield server
    server.kill()


@pytest.mark.parametrize(
    ("kept", "least", "most"),
    [(False, -LITTLE, LITTLE), (True, LARGEST, LARGEST * 9 // 5)],
    ids=["nobody reads it", "a fault reads it"],
)
async def test_changes_take_memory_only_while_a_fault_reads_the_past(
    unused: Server, *, kept: bool, least: int, most: int
) -> None:
    pod = await new_pod(unused.seeded(), envVars=ENVIRONMENT)
    if kept:
        await keep_the_past(unused)
    assert least < await change_often(unused.seeded(), pod["id"]) < most


async def test_of_a_past_that_is_too_much_the_newest_part_is_kept(start_server: StartServer) -> None:
    server = start_server(*FROZEN)
    organization = server.seeded()
    await keep_the_past(server)
    pod = await new_pod(organization, envVars=ENVIRONMENT)
    await change_often(organization, pod["id"])
    await server.advance(5)
    stale = {"operation": "GET /v1/vms/{id}", "effect": {"staleSeconds": 4}, "count": 1}
    await server.ok("POST", "/faults", stale)
    assert await status(organization, pod["id"]) == "deploying"
    assert await status(organization, pod["id"]) == "running"
