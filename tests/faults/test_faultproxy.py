"""The fault proxy itself, with clients other than the operator."""

from __future__ import annotations

import asyncio
import json
import math
import secrets
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from tests.faults.conftest import module_fixture
from tests.support.eventually import PATIENCE_SECONDS, eventually
from tests.support.faultproxy import FaultProxy
from tests.support.faultrules import (
    Action,
    Answer,
    Breakage,
    BreakWatches,
    Deed,
    Drip,
    Drop,
    Hold,
    LoseReply,
    Moment,
    Overtaken,
    Rule,
    Side,
    Truncate,
    kube_call,
)
from tests.support.kube import Kube, KubeError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.localcloud import LocalCloud, Organization

pytestmark = pytest.mark.asyncio(loop_scope="session")

_POD = {"image": "a:1", "gpuModelId": "l40s", "gpuCount": 1}
_MAPS = "/api/v1/namespaces/default/configmaps"


@module_fixture
async def proxy(
    operator_kubeconfig: Path, fault_cloud: LocalCloud, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[FaultProxy]:
    """Yields a proxy that no operator uses."""
    own = FaultProxy(tmp_path_factory.mktemp("proxy"), operator_kubeconfig, fault_cloud.management_url)
    await own.start()
    yield own
    await own.stop()


@module_fixture
async def customer(fault_cloud: LocalCloud) -> Organization:
    """An organization that creates pods."""
    return await fault_cloud.control.create_organization("proxied")


async def _create_pod(proxy: FaultProxy, customer: Organization, action: Action, name: str = "") -> tuple[int, bytes]:
    """Makes a create that meets the action; its name is unique, since the cloud refuses a name in use."""
    name = name or f"proxied-{secrets.token_hex(4)}"
    proxy.arm(Rule(Side.CLOUD, "POST /v1/pods", action))
    return await _post_pod(proxy, customer, name)


async def _post_pod(proxy: FaultProxy, customer: Organization, name: str, url: str | None = None) -> tuple[int, bytes]:
    headers = {"Authorization": f"Bearer {customer.api_key}"}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.post(f"{url or proxy.cloud_url}/v1/pods", json={**_POD, "name": name}) as reply,
    ):
        return reply.status, await reply.read()


async def _acted(cloud: LocalCloud, customer: Organization) -> int:
    """Returns the number of creates that the cloud acted on, from its own log."""
    log = await cloud.control.requests(organization=customer)
    return sum(one["operation"] == "POST /v1/pods" and one["status"] == 200 for one in log)


@pytest.mark.parametrize(
    ("action", "acts"),
    [(Drop(), 0), (LoseReply(), 1), (Truncate(30), 1), (Answer(500, "{}"), 0), (Answer(200, acted=True), 1)],
    ids=str,
)
async def test_a_fault_acts_on_the_cloud_or_not_as_it_says(
    proxy: FaultProxy, customer: Organization, fault_cloud: LocalCloud, action: Action, acts: int
) -> None:
    before = await _acted(fault_cloud, customer)
    if isinstance(action, Answer):
        assert await _create_pod(proxy, customer, action) == (action.status, action.body.encode())
    else:
        with pytest.raises(aiohttp.ClientError):
            await _create_pod(proxy, customer, action)
    assert await _acted(fault_cloud, customer) - before == acts


async def test_what_is_overtaken_arrives_when_the_next_attempt_was_answered(
    proxy: FaultProxy, customer: Organization
) -> None:
    with pytest.raises(aiohttp.ClientError):
        await _create_pod(proxy, customer, Overtaken(), "tried")
    await _post_pod(proxy, customer, "tried-by-another")
    assert "tried" not in proxy.made.values()
    await _post_pod(proxy, customer, "tried-2")

    async def late() -> list[str]:
        return [proxy.made[one] for one in proxy.late]

    assert await eventually(late) == ["tried"]


async def test_a_late_create_that_is_refused_makes_nothing_and_fails_nothing(
    proxy: FaultProxy, customer: Organization, fault_cloud: LocalCloud, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(aiohttp.ClientError):
        await _create_pod(proxy, customer, Overtaken(), "taken")
    assert (await _post_pod(proxy, customer, "taken", fault_cloud.management_url))[0] == 200
    await _post_pod(proxy, customer, "taken-2")

    async def forwarding() -> bool:
        return bool(proxy._forwarding)

    await eventually(forwarding, lambda under_way: not under_way)
    assert not proxy.late
    assert "exception was never retrieved" not in caplog.text


async def test_a_slow_answer_arrives_whole(proxy: FaultProxy, customer: Organization) -> None:
    status, body = await _create_pod(proxy, customer, Drip(0.2), "slow")
    assert (status, json.loads(body)["name"]) == (200, "slow")


@pytest.mark.parametrize(("when", "acted"), [(Moment.BEFORE, 0), (Moment.ACTED, 1)])
async def test_a_caller_that_dies_while_held_gets_no_further(
    proxy: FaultProxy, customer: Organization, fault_cloud: LocalCloud, when: Moment, acted: int
) -> None:
    before = await _acted(fault_cloud, customer)
    calling = asyncio.create_task(_create_pod(proxy, customer, Hold(when, Deed.NONE)))
    held = await asyncio.wait_for(proxy.held.get(), PATIENCE_SECONDS)
    assert proxy.let_go_at == math.inf
    calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)
    # The proxy answers the next call after it has noticed that the first caller disconnected.
    await _create_pod(proxy, customer, Answer(500))
    held.release()
    await _create_pod(proxy, customer, Answer(500))
    assert proxy.let_go_at < math.inf
    assert await _acted(fault_cloud, customer) - before == acted


async def test_what_is_made_is_known_even_if_its_caller_dies_meanwhile(
    proxy: FaultProxy, customer: Organization, fault_cloud: LocalCloud
) -> None:
    await fault_cloud.control.fault("POST /v1/pods", {"delaySeconds": 5}, organizationId=customer.id, count=1)
    proxy.arm()
    begun = len(proxy.log)
    calling = asyncio.create_task(_post_pod(proxy, customer, "orphaned"))

    async def asked() -> bool:
        return len(proxy.log) > begun

    async def known() -> bool:
        return "orphaned" in proxy.made.values()

    await eventually(asked, every=0.01)
    calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)
    assert not await known()
    assert await eventually(known)


async def test_calls_are_logged_in_order_with_what_met_them(proxy: FaultProxy, customer: Organization) -> None:
    start = len(proxy.log)
    await _create_pod(proxy, customer, Answer(500), "proxied")
    async with Kube(proxy.kubeconfig) as kube:
        with pytest.raises(KubeError):
            await kube.get("GpuPod", "nobody")
    told = [(str(one.call), one.status, one.fault is not None) for one in proxy.since(start)]
    assert told == [("cloud: POST /v1/pods proxied", 500, True), ("kube: GET gpupods nobody", 404, False)]


@pytest.mark.parametrize("code", [410, 500])
async def test_a_watch_streams_and_breaks_between_two_events(proxy: FaultProxy, code: int) -> None:
    proxy.arm()
    events: list[dict[str, Any]] = []

    async def follow() -> None:
        async with Kube(proxy.kubeconfig) as kube:
            assert kube._session is not None
            path = "/apis/gpurelay.dev/v1alpha1/gpupods"
            async with kube._session.get(
                path, params={"watch": "true", "sendInitialEvents": "true", **_BOOKMARKS}
            ) as reply:
                while line := await reply.content.readline():
                    events.append(json.loads(line))

    following = asyncio.create_task(follow())

    async def begun() -> bool:
        return any(event["type"] == "BOOKMARK" for event in events)

    await eventually(begun, what="the watch streams")
    assert proxy.break_watches(BreakWatches(Breakage.ERROR, code)) == 1
    await asyncio.wait_for(following, PATIENCE_SECONDS)
    assert (events[-1]["type"], events[-1]["object"]["code"]) == ("ERROR", code)


_BOOKMARKS = {"allowWatchBookmarks": "true", "resourceVersionMatch": "NotOlderThan"}


@pytest.mark.parametrize(
    ("method", "path", "query", "body", "named"),
    [
        ("GET", _MAPS, {}, {}, "kube: LIST configmaps"),
        ("GET", _MAPS, {"watch": "true"}, {}, "kube: WATCH configmaps"),
        ("GET", f"{_MAPS}/one", {}, {}, "kube: GET configmaps one"),
        ("PATCH", "/apis/gpurelay.dev/v1alpha1/namespaces/n/gpupods/p/status", {}, {}, "kube: PATCH gpupods/status p"),
        ("POST", _MAPS, {}, {"metadata": {"name": "made"}}, "kube: POST configmaps made"),
        ("DELETE", "/api/v1/namespaces/n", {}, {}, "kube: DELETE namespaces n"),
        ("GET", "/version", {}, {}, "kube: GET /version"),
    ],
)
async def test_a_kubernetes_request_has_the_name_of_its_step(
    method: str, path: str, query: dict[str, str], body: dict[str, Any], named: str
) -> None:
    assert str(kube_call(method, path, query, body)) == named
