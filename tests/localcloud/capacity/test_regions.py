"""A region is known to an organization if it has nodes that the organization can get something of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.localcloud.support.reservations import released, reserve
from tests.localcloud.support.workloads import own_node, set_organization

if TYPE_CHECKING:
    from tests.localcloud.support.server import Organization, Server

PATHS = {"vms": "/v1/orgs/{org}/vms/create", "clusters": "/v1/orgs/{org}/clusters/create"}
THERE = {"name": "there", "gpuModelId": "h100", "preferredRegions": ["the-cellar"], "allowFallback": False}


@pytest.mark.parametrize("kind", PATHS)
async def test_the_region_of_another_organizations_node_reads_as_one_that_does_not_exist(
    server: Server, organization: Organization, kind: str
) -> None:
    owner = await server.organization()
    await own_node(owner, region="the-cellar")
    answers = [
        await organization.call("POST", PATHS[kind], {**THERE, "preferredRegions": [region]})
        for region in ("the-cellar", "the-attic")
    ]
    assert [answer.refusal for answer in answers] == [(422, "unprocessable")] * 2
    assert answers[0].body["error"].replace("cellar", "attic") == answers[1].body["error"]
    assert (await owner.call("POST", PATHS[kind], THERE)).status == 200


async def test_the_region_of_reserved_and_of_lent_units_is_known(server: Server, organization: Organization) -> None:
    owner, lent = await server.organization(), {**THERE, "preferredRegions": ["the-loft"]}
    await set_organization(owner, provider=True)
    node = await own_node(owner, region="the-loft", count=2)
    await reserve(owner, node, [0], organization)
    vm = {**lent, "nodeId": node}
    assert (await organization.call("POST", PATHS["vms"], vm)).status == 200
    stranger = await server.organization()
    spot = {**lent, "tier": "spot"}
    assert (await stranger.call("POST", PATHS["vms"], spot)).refusal == (422, "unprocessable")
    await released(owner, node, [1], owner)
    assert (await stranger.call("POST", PATHS["vms"], spot)).status == 200
