"""How a pod is searched for among the ids that webhooks named: bounded in one pass, and gone on with in the next."""

import json

import pytest

from relay_client import Cloud
from relay_operator.engine.unclaimed_ids import UnclaimedIds
from relay_operator.flows.managed.resource import CannotTell, Found, Unfinished
from relay_operator.kinds.gpupod import GpuPods
from tests.unit.client.scripted import Reply, scripted_server

ABSENT = Reply(404, b'{"error":"no such pod"}')


def told(number: int, name: str) -> Reply:
    """The pod with this number."""
    return Reply(body=json.dumps({"id": f"pod-{number}", "name": name, "status": "running"}).encode())


ANOTHERS = [told(number, "another") for number in reversed(range(25))]
"""In the order in which they are looked up: newest first."""


@pytest.mark.parametrize("replies", [[ABSENT] * 25, ANOTHERS], ids=["gone", "another's"])
async def test_a_pass_looks_up_ten_and_the_next_goes_on(replies: list[Reply]) -> None:
    unclaimed, looked_up = UnclaimedIds(), []
    for number in range(25):
        unclaimed.add(f"pod-{number}")
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(*replies, ABSENT)
        for expected in (Unfinished(), Unfinished(), CannotTell()):
            assert await GpuPods().find(cloud, "mine", unclaimed) == expected
            looked_up.append(len([target for target in server.targets if "/pod-" in target]))
    assert looked_up == [10, 20, 25]


async def test_what_is_found_ends_the_search_whatever_is_left() -> None:
    unclaimed = UnclaimedIds()
    for number in range(25):
        unclaimed.add(f"pod-{number}")
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(told(24, "mine"), *ANOTHERS[1:10], told(24, "mine"))
        found = await GpuPods().find(cloud, "mine", unclaimed)
        assert isinstance(found, Found)
        assert len(server.seen) == 11


async def test_an_id_that_the_cloud_refuses_does_not_hide_the_others() -> None:
    unclaimed = UnclaimedIds()
    for cloud_id in ("pod-1", "cluster-9"):  # looked up newest first
        unclaimed.add(cloud_id)
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(Reply(400, b'{"error":"no id of a VM"}'), told(1, "mine"), told(1, "mine"))
        assert isinstance(await GpuPods().find(cloud, "mine", unclaimed), Found)


@pytest.mark.parametrize(
    "answer",
    [ABSENT, Reply(404), Reply(405), Reply(400, b'{"error":"no"}'), Reply(403, b'{"message":"no token"}')],
    ids=["no route", "no body", "no method", "refused", "forbidden"],
)
async def test_a_cloud_without_a_list_cannot_tell(answer: Reply) -> None:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(answer)
        assert await GpuPods().find(cloud, "mine", UnclaimedIds()) == CannotTell()


async def test_a_newborn_that_the_cloud_does_not_find_yet_is_looked_up_again() -> None:
    now = 0.0
    unclaimed = UnclaimedIds(clock=lambda: now)
    unclaimed.add("pod-1")
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(ABSENT, ABSENT)
        assert await GpuPods().find(cloud, "mine", unclaimed) == CannotTell()
        now = 31.0
        server.will(told(1, "mine"), ABSENT, ABSENT)
        assert await GpuPods().find(cloud, "mine", unclaimed) == CannotTell(), "read, and then not found"
        server.will(told(1, "mine"))
        assert isinstance(await GpuPods().find(cloud, "mine", unclaimed), Found)
