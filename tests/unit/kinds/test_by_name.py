"""How the answer to "is there one with this name" is read from a list whose rows may lack their names."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from relay_client import Cloud
from relay_operator.engine.shared_lists import SharedLists
from relay_operator.engine.unclaimed_ids import UnclaimedIds
from relay_operator.flows.managed.resource import CannotTell, Found, NotSeen
from relay_operator.kinds.apikey import ApiKeys
from relay_operator.kinds.gpucluster import GpuClusters
from relay_operator.kinds.gpupod import GpuPods
from relay_operator.kinds.gpuvm import GpuVms
from relay_operator.kinds.provisioningtoken import ProvisioningTokens
from relay_operator.kinds.registrycredential import RegistryCredentials
from relay_operator.kinds.runnerpool import RunnerPools
from relay_operator.kinds.sshkey import SshKeys
from tests.unit.client.scripted import Reply, scripted_server
from tests.unit.kinds.given import parts

if TYPE_CHECKING:
    from pydantic import JsonValue


PARTS = parts()
RECORDS = (ApiKeys, ProvisioningTokens, RegistryCredentials, RunnerPools, SshKeys)
KINDS: list[Any] = [
    *(kind(PARTS) for kind in RECORDS),
    GpuPods(),
    GpuVms(),
    GpuClusters(SharedLists(300.0, time.monotonic)),
]
OF_A_KEY: dict[str, JsonValue] = {"keyPrefix": "or_", "scopes": [], "createdAt": "2026-03-01T12:00:00Z"}
NAMED: dict[str, JsonValue] = {
    "id": "1",
    "name": "another",
    "organizationId": "org-1",
    "status": "running",
    "serviceType": "pod",
    **OF_A_KEY,
}
NAMELESS = NAMED | {"id": "2", "name": "", "serviceType": None}
ENDED: dict[str, JsonValue] = {"status": "terminated", "revokedAt": "2026-03-02T12:00:00Z"}


async def find(kind: Any, *rows: dict[str, JsonValue]) -> Any:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(Reply(body=json.dumps({"items": rows}).encode()))
        return await kind.find(cloud, "mine", UnclaimedIds())


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: type(kind).__name__)
async def test_a_row_without_a_name_may_be_the_one(kind: Any) -> None:
    assert await find(kind, NAMED) == NotSeen()
    assert await find(kind, NAMED, NAMELESS) == CannotTell()


@pytest.mark.parametrize("kind", [RunnerPools(PARTS), SshKeys(PARTS), GpuPods()], ids=lambda kind: type(kind).__name__)
async def test_null_and_absent_are_no_names_either(kind: Any) -> None:
    assert await find(kind, NAMED, NAMED | {"name": None}) == CannotTell()
    assert await find(kind, NAMED, {name: value for name, value in NAMED.items() if name != "name"}) == CannotTell()


async def test_a_row_with_the_name_is_the_one_whatever_others_lack() -> None:
    assert isinstance(await find(GpuPods(), NAMELESS, NAMED | {"name": "mine"}), Found)


@pytest.mark.parametrize("kind", [ApiKeys(PARTS), *KINDS[-3:]], ids=lambda kind: type(kind).__name__)
async def test_a_nameless_row_that_has_ended_is_not_the_one(kind: Any) -> None:
    assert await find(kind, NAMED, NAMELESS | ENDED) == NotSeen()


async def test_a_nameless_machine_of_the_other_kind_is_not_the_one() -> None:
    assert await find(GpuPods(), NAMED, NAMELESS | {"serviceType": GpuPods.others}) == NotSeen()
    assert await find(GpuVms(), NAMED, NAMELESS | {"serviceType": GpuPods.others}) == CannotTell()


async def test_a_list_of_vms_that_shows_no_pod_says_nothing_of_pods() -> None:
    assert await find(GpuPods()) == CannotTell()
    assert await find(GpuPods(), NAMED | {"serviceType": GpuPods.others}) == CannotTell()
    assert await find(GpuPods(), NAMED | {"serviceType": None}) == CannotTell()
    assert await find(GpuPods(), NAMED | ENDED) == NotSeen()
    assert await find(GpuVms()) == NotSeen()
    assert isinstance(await find(GpuPods(), NAMED | {"name": "mine", "serviceType": None}), Found)
