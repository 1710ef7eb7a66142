"""The buttons of a workload's page: what they do, and what is said where somebody else was faster."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest
from playwright.async_api import expect

from tests.localcloud.support import clusters, deployments
from tests.localcloud.support.pages import page, refusal, text_of
from tests.localcloud.support.server import Answer, request
from tests.localcloud.support.workloads import running_pod, status, stopped_pod

if TYPE_CHECKING:
    from tests.localcloud.support.browsing import Console
    from tests.localcloud.support.server import Server


async def press(server: Server, workload: str, change: str, **form: object) -> Answer:
    """Press a button as the page's form does."""
    sent = {"Origin": server.url, "Content-Type": "application/x-www-form-urlencoded"}
    fields = urlencode({"back": f"/console/workload?id={workload}", **form}).encode()
    return await request("POST", f"{server.url}/console/workloads/{workload}/{change}", raw=fields, headers=sent)


async def offered(server: Server, workload: str) -> set[str]:
    """What the buttons of a workload's page ask for."""
    shown = (await page(server, f"/console/workload?id={workload}")).raw.decode()
    return set(re.findall(rf'action="/console/workloads/{workload}/([a-z]+)"', shown)) - {"events"}


async def test_a_pod_is_stopped_started_and_terminated_and_each_state_offers_what_it_allows(fresh: Server) -> None:
    owner = fresh.seeded()
    pod = await running_pod(owner)
    assert await offered(fresh, pod) == {"restart", "stop", "terminate"}
    answer = await press(fresh, pod, "stop")
    assert (answer.status, answer.headers["location"]) == (303, f"/console/workload?id={pod}&done=stop")
    assert "It is stopped, or will be in a moment." in text_of(await page(fresh, answer.headers["location"]))
    assert await offered(fresh, pod) == {"terminate"}
    await fresh.advance(2)
    assert await status(owner, pod) == "stopped"
    assert await offered(fresh, pod) == {"restart", "terminate"}
    assert ">Start<" in (await page(fresh, f"/console/workload?id={pod}")).raw.decode()
    assert (await press(fresh, pod, "restart")).status == 303
    await fresh.advance(2)
    assert await status(owner, pod) == "running"
    assert (await press(fresh, pod, "terminate")).status == 303
    assert await status(owner, pod) == "terminated"
    assert await offered(fresh, pod) == set()


async def test_two_people_press_the_same_button(fresh: Server) -> None:
    owner = fresh.seeded()
    pod = await stopped_pod(owner)
    assert (await press(fresh, pod, "restart")).status == 303
    assert refusal(await press(fresh, pod, "restart")) == (
        409,
        "It is still being started: wait until it is running.",
    )
    await fresh.advance(2)
    for change in ("stop", "terminate"):
        assert [(await press(fresh, pod, change)).status for _ in range(2)] == [303, 303], change
    assert refusal(await press(fresh, pod, "restart")) == (409, "It is terminated.")


async def test_replicas_are_scaled_within_their_bounds(fresh: Server) -> None:
    owner = fresh.seeded()
    cluster, deployment = await clusters.running(owner), await deployments.running(owner)
    assert await offered(fresh, cluster) == {"restart", "stop", "scale", "terminate"}
    assert await offered(fresh, deployment) == {"scale", "terminate"}
    for workload in (cluster, deployment):
        answer = await press(fresh, workload, "scale", replicas=3)
        assert (answer.status, answer.headers["location"]) == (303, f"/console/workload?id={workload}&done=scale")
        assert "of 3 healthy" in text_of(await page(fresh, f"/console/workload?id={workload}"))
        for wrong in ("", "x", "-1", "2.5", "1e30", "nan", "1001"):
            assert refusal(await press(fresh, workload, "scale", replicas=wrong))[0] == 400, wrong
    assert (await clusters.summary(owner, cluster))["replicaCount"] == 3
    assert refusal(await press(fresh, deployment, "stop")) == (400, "A deployment has no stop: scale it to 0 instead.")


async def test_what_is_gone_or_has_no_replicas_is_a_clear_page(fresh: Server) -> None:
    pod = await running_pod(fresh.seeded())
    assert refusal(await press(fresh, pod, "scale", replicas=2)) == (
        400,
        "A pod or VM has no replicas: it cannot be scaled.",
    )
    for change in ("restart", "stop", "terminate"):
        code, said = refusal(await press(fresh, "pod_gone", change))
        assert (code, said) == (404, "There is no workload 'pod_gone': it was deleted, or never existed.")
    assert (await press(fresh, pod, "odd")).status == 404


@pytest.mark.asyncio(loop_scope="session")
async def test_a_person_stops_starts_and_scales_and_a_page_stays_open_while_its_workload_goes(
    console: Console, fresh: Server
) -> None:
    owner = fresh.seeded()
    pod = await running_pod(owner, name="trainer")
    deployment = await deployments.running(owner)
    facts = console.page.locator(".facts")
    await console.open("/console/workloads")
    await console.page.get_by_role("link", name="trainer").click()
    await expect(facts).to_contain_text("running")
    await console.press("Stop")
    await console.has_said("It is stopped, or will be in a moment.")
    await console.press("+1 min")
    await expect(facts).to_contain_text("stopped")
    await console.press("Start")
    await console.press("+1 min")
    await expect(facts).to_contain_text("running")
    await console.picture("workload")
    await console.page.get_by_text("Terminate", exact=True).click()
    await console.press("Terminate it now")
    await expect(facts).to_contain_text("terminated")
    assert await status(owner, pod) == "terminated"

    await console.open(f"/console/workload?id={deployment}")
    await console.page.get_by_role("spinbutton", name="Replicas").fill("2")
    await console.press("Scale")
    await console.has_said("The number of replicas was changed.")
    await expect(facts).to_contain_text("of 2 healthy")
    await console.page.get_by_text("Terminate", exact=True).click()
    await console.press("Terminate it now")
    await expect(console.page.get_by_role("heading", level=1)).to_have_text("Workloads")
    await console.has_said("It is terminated")
    await expect(console.row(deployment)).to_contain_text("draining")
    await console.page.get_by_role("link", name="echo").click()
    await expect(facts).to_contain_text("draining")
    await console.press("+1 min")
    await expect(console.page.get_by_role("alert")).to_contain_text("There is no workload")
    await console.page.get_by_role("link", name="Go back").click()
    await expect(console.page.get_by_role("heading", level=1)).to_have_text("Workloads")
    console.troubles.clear()  # the browser notes the 404


@pytest.mark.asyncio(loop_scope="session")
async def test_a_button_that_has_the_focus_does_not_become_another_one(console: Console, fresh: Server) -> None:
    owner = fresh.seeded()
    cluster = await clusters.running(owner)
    await owner.ok("POST", f"/v1/clusters/{cluster}/stop")
    await fresh.advance(60)
    await console.open(f"/console/workload?id={cluster}")
    start = console.page.get_by_role("button", name="Start llm")
    await start.focus()
    await console.page.keyboard.press("Enter")
    await expect(console.page.get_by_role("button", name="Stop llm")).to_be_visible()
    await console.page.keyboard.press("Enter")
    await console.press("+1 min")
    await console.has_said("The clock was moved on")
    assert (await owner.ok("GET", f"/v1/clusters/{cluster}"))["status"] == "running"
