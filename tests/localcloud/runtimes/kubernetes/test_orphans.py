"""Containers of the cloud that its state has no record of: control and console list them, and end them if told to."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest_asyncio

from relay_localcloud import app
from relay_localcloud.control.state import Reset
from relay_localcloud.http.servers import Server, listen
from relay_localcloud.http.visitors import Visitors
from relay_localcloud.identity import organizations
from relay_localcloud.kernel.instants import timestamp
from relay_localcloud.runtimes.kubernetes import holdings
from relay_localcloud.runtimes.kubernetes.names import CLOUD_ID, INSTANCE, REPLICA_ID, name_of, namespace_of
from relay_localcloud.runtimes.kubernetes.situations import Step
from tests.localcloud.support.pages import text_of
from tests.localcloud.support.server import request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from tests.localcloud.runtimes.kubernetes.rows import Rows

SINCE = "pod_1f"
GONE = "org_3c"
"""An organization that is not in the state either."""


@pytest_asyncio.fixture
async def url(room: Rows) -> AsyncIterator[str]:
    """Of the cloud's management port."""
    with room.tx() as tx:
        founded, _ = organizations.seed(tx)
    listener = listen("127.0.0.1", 0)
    api, _ = app.apis(room.cloud, app.Options(), Reset(None, founded))
    server = Server(api, Visitors(room.store), listener, None)
    serving = asyncio.create_task(server.run_until_told())
    await server.ready()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.end()
    await serving


def found(
    room: Rows,
    holder_id: str,
    labels: Mapping[str, str] | None = None,
    *,
    namespace: str = namespace_of(GONE),
    start: int = 3,
) -> None:
    """There is a Pod with the mark of the cloud, besides those that were there."""
    marks = {INSTANCE: room.offer.terms.instance, CLOUD_ID: holder_id, **(labels or {})}
    room.pods[name_of(holder_id)] = room.running(holder_id, start, namespace=namespace, labels=marks)


async def page(url: str) -> str:
    """What the page of nodes says."""
    return text_of(await request("GET", f"{url}/console/nodes"))


async def listed(url: str) -> list[dict[str, object]]:
    """What control lists."""
    items: list[dict[str, object]] = (await request("GET", f"{url}/_localcloud/orphans")).body["items"]
    return items


async def test_a_container_that_the_state_does_not_know_is_listed_by_control_and_in_the_console(
    room: Rows, url: str
) -> None:
    assert await listed(url) == []
    assert "Orphans" not in await page(url)
    found(room, SINCE)
    place = {"cluster": "cluster", "namespace": "relay-org-3c"}
    assert await listed(url) == [{"id": SINCE, "workloadId": SINCE, **place, "createdAt": timestamp(room.now)}]
    shown = await page(url)
    assert all(word in shown for word in ("Orphans", SINCE, "relay-org-3c", "End it now", "nobody is billed"))


async def test_what_the_state_knows_or_another_cloud_made_is_not_listed(room: Rows, url: str) -> None:
    namespace = namespace_of(room.organization_id)
    replica = room.replica(room.cluster())
    found(room, replica.id, namespace=namespace, start=1)
    found(room, "rep_later", {INSTANCE: "another"}, namespace=namespace)
    found(room, "rep_elsewhere", namespace="team-a")
    found(room, "rep_2", {REPLICA_ID: "rep_3"}, namespace=namespace)  # a Pod of another name
    assert await listed(url) == []


async def test_a_container_is_ended_as_any_other_by_whoever_says_so_in_the_console(room: Rows, url: str) -> None:
    found(room, SINCE)
    kept = {"Origin": url, "Content-Type": "application/x-www-form-urlencoded"}
    pressed = await request(
        "POST", f"{url}/console/orphans/{SINCE}/removal", raw=b"back=%2Fconsole%2Fnodes", headers=kept
    )
    assert (pressed.status, pressed.headers["location"]) == (303, "/console/nodes?done=orphan-ended")
    assert await listed(url) == []
    turn = room.turn(SINCE)
    assert (turn.step, turn.namespace, turn.name) == (Step.END, "relay-org-3c", "pod-1f")
    room.pods.clear()
    assert room.turn(SINCE).step is Step.SWEEP
    with room.tx() as tx:
        assert holdings.organizations(tx, "cluster") == set()
        holdings.swept(tx, SINCE)
    room.now += holdings.KEPT
    with room.tx() as tx:
        holdings.forget(tx)
        assert holdings.HOLDINGS.find(tx, id=SINCE) is None


async def test_control_ends_a_replica_and_refuses_what_it_does_not_list(room: Rows, url: str) -> None:
    found(room, "rep_7", {CLOUD_ID: "cluster_9", REPLICA_ID: "rep_7"})
    (orphan,) = await listed(url)
    assert (orphan["id"], orphan["workloadId"]) == ("rep_7", "cluster_9")
    assert "rep_7 of cluster_9" in await page(url)
    known = room.replica(room.cluster()).id
    for other in ("cluster_9", known):
        answer = await request("DELETE", f"{url}/_localcloud/orphans/{other}")
        assert answer.refusal == (404, "not_found")
    assert (await request("DELETE", f"{url}/_localcloud/orphans/rep_7")).status == 204
    assert room.turn("rep_7").step is Step.END
    assert (await request("DELETE", f"{url}/_localcloud/orphans/rep_7")).refusal == (404, "not_found")
