"""What a person does in the console, in a real browser."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from playwright.async_api import expect

from tests.localcloud.support.browsing import console_of
from tests.localcloud.support.events import create_webhook
from tests.localcloud.support.receiver import Receiver
from tests.localcloud.support.workloads import act, new_pod, running_pod
from tests.support.eventually import eventually
from tests.support.process import free_port

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.async_api import Browser, Route

    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.browsing import Console
    from tests.localcloud.support.server import Organization, Server

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def available_cents(organization: Organization) -> int:
    return int((await organization.ok("GET", "/v1/orgs/{org}/billing/balance"))["availableCents"])


async def shown_cents(console: Console) -> int:
    text = await console.page.locator(".available").inner_text()
    return int(text.replace("$", "").replace(",", "").replace(".", ""))


async def test_a_pod_appears_costs_money_loses_its_node_and_its_delivery_is_sent_again(
    console: Console, fresh: Server
) -> None:
    organization = fresh.seeded()
    async with Receiver() as receiver:
        await create_webhook(organization, receiver)
        await console.open()
        await expect(console.page.get_by_text("Nothing here yet.")).to_be_visible()
        await console.page.evaluate("document.body.marked = true")

        pod = await new_pod(organization, name="trainer", gpuCount=2)
        await expect(console.row(pod["id"])).to_contain_text("trainer")
        await expect(console.row(pod["id"])).to_contain_text("deploying")
        await console.press("+1 min")
        await expect(console.row(pod["id"])).to_contain_text("running")
        assert await console.page.evaluate("document.body.marked"), "the page was loaded anew"
        await console.picture("overview")

        await console.go("Money")
        before = await shown_cents(console)
        assert before == await available_cents(organization)
        await console.press("+1 day")
        await console.has_said("The clock was moved on")
        assert await shown_cents(console) == await available_cents(organization) == before - 24 * 2 * 249
        await console.picture("money")

        await console.go("Nodes")
        node = console.page.locator("main li[id^=node_]", has=console.page.get_by_role("link", name="trainer"))
        await console.press("Take down", node)
        await expect(node).to_contain_text("offline")
        await console.picture("nodes")
        await console.press("+10 min")
        await console.has_said("The clock was moved on")
        await console.go("Workloads")
        await expect(console.row(pod["id"])).to_contain_text("interrupted")
        await expect(console.row(pod["id"])).to_contain_text("Its node stopped reporting")
        await console.picture("workloads")

        await console.go("Webhooks")
        interrupted = [received for received in receiver.received if received.event["type"] == "vm.running"]
        again = console.page.get_by_role("row", name="vm.running").first
        await console.press("Replay", again)
        await console.has_said("The delivery is sent again.")

        async def deliveries() -> list[str]:
            return [received.delivery for received in receiver.received]

        await eventually(deliveries, lambda seen: seen.count(interrupted[0].delivery) == 2)
        await expect(console.page.get_by_role("row", name="vm.running")).to_have_count(2)
        await console.picture("webhooks")


async def test_the_node_comes_back_and_its_pod_runs_again(console: Console, fresh: Server) -> None:
    pod = await new_pod(fresh.seeded(), name="trainer")
    await fresh.advance(5)
    await console.open("/console/nodes")
    node = console.page.locator("main li[id^=node_]", has=console.page.get_by_role("link", name="trainer"))
    await console.press("Take down", node)
    await fresh.advance(600)
    await console.press("Bring back", node)
    await console.has_said("The node reports again")
    await expect(node).to_contain_text("online")
    await console.go("Workloads")
    await expect(console.row(pod["id"])).to_contain_text("running")


async def test_a_fault_is_added_met_and_removed(console: Console, fresh: Server) -> None:
    await console.open("/console/faults")
    await console.page.get_by_label("Effect").select_option("Answer 503")
    await console.press("Add the fault")
    await console.has_said("The fault is set")
    refused = await fresh.seeded().call("POST", "/v1/pods", {"image": "app:1", "gpuModelId": "h100"})
    assert refused.status == 503
    await expect(console.page.locator("#present")).to_contain_text("1 of 1 seen")
    await console.picture("faults")
    await console.go("Requests")
    await expect(console.page.get_by_role("row", name="POST /v1/pods")).to_contain_text("fault")
    await console.go("Faults")
    await console.press("Remove")
    await console.has_said("The fault was removed.")
    await expect(console.page.locator("#present")).to_contain_text("No fault is set.")
    assert (await fresh.ok("GET", "/faults")) == {"items": []}


async def test_what_cannot_be_done_is_said_on_the_page(console: Console) -> None:
    await console.open("/console/faults")
    await console.page.get_by_label("Operation").fill("POST /v1/nothing")
    await console.press("Add the fault")
    await console.has_said("'POST /v1/nothing' is not served")
    assert console.troubles == [
        "error: Failed to load resource: the server responded with a status of 400 (Bad Request)"
    ]
    console.troubles.clear()
    await expect(console.page.get_by_label("Operation")).to_have_value("POST /v1/nothing")


async def test_the_clock_is_frozen_scaled_and_moved_to_an_instant(console: Console, fresh: Server) -> None:
    await console.open("/console/clock")
    await console.page.get_by_label("To the instant").fill("2031-02-03T04:05:06Z")
    await console.press("Move there")
    await expect(console.page.locator("#now")).to_have_text("2031-02-03 04:05:06")
    await console.page.get_by_label("Mode").select_option("Scaled")
    await console.page.get_by_label("Rate").fill("120")
    await console.press("Change the pace")
    await expect(console.page.locator("header")).to_contain_text("120 x real time")
    await expect(console.page.locator("#now")).not_to_have_text("2031-02-03 04:05:06")
    await console.press("Freeze")
    await expect(console.page.locator("header")).to_contain_text("frozen")
    clock = await fresh.ok("GET", "/clock")
    assert clock["mode"] == "frozen"
    assert clock["now"] > "2031-02-03T04:05:06"


async def test_one_organization_is_chosen_and_stays_chosen(console: Console, fresh: Server) -> None:
    other = await fresh.organization(name="Second")
    mine, theirs = await new_pod(fresh.seeded(), name="mine"), await new_pod(other, name="theirs")
    await console.open("/console/workloads")
    await expect(console.row(mine["id"])).to_be_visible()
    await expect(console.row(theirs["id"])).to_contain_text("in Second")
    await console.page.get_by_label("Organization").select_option(other.id)
    await console.press("Show")
    await expect(console.row(theirs["id"])).to_be_visible()
    await expect(console.row(mine["id"])).to_have_count(0)
    await console.go("Money")
    await expect(console.page.locator("main")).to_contain_text(other.id)


async def test_a_choice_stays_while_new_options_come_before_it(console: Console, fresh: Server) -> None:
    chosen = await fresh.organization(name="Second")
    await console.open("/console/workloads")
    organizations = console.page.get_by_label("Organization")
    await organizations.select_option(chosen.id)
    newest = await fresh.organization(name="Third")
    await expect(organizations.get_by_role("option", name=newest.id)).to_have_count(1)
    await expect(organizations).to_have_value(chosen.id)


async def test_a_name_is_found_among_those_of_the_state_that_is_shown(console: Console, fresh: Server) -> None:
    for name in ("wanted", "other"):
        await act(fresh.seeded(), await running_pod(fresh.seeded(), name=name), "terminate")
    await console.open("/console/workloads")
    await console.page.get_by_role("link", name="terminated", exact=True).click()
    await console.page.get_by_label("Name or id").fill("wanted")
    await console.press("Find")
    await expect(console.page.locator("#pods [data-label=Name] a")).to_have_text(["wanted"])


async def test_updates_can_be_paused(console: Console, fresh: Server) -> None:
    await console.open("/console/workloads")
    await console.press("Pause updates")
    await expect(console.page.get_by_role("button", name="Pause updates")).to_have_attribute("aria-pressed", "true")
    pod = await new_pod(fresh.seeded())
    await console.press("Pause updates")
    await expect(console.row(pod["id"])).to_be_visible()


async def test_an_update_that_is_under_way_is_not_shown_once_updates_are_paused(
    console: Console, fresh: Server
) -> None:
    await console.open("/console/workloads")
    asked, released = asyncio.Event(), asyncio.Event()

    async def hold(route: Route) -> None:
        asked.set()
        await released.wait()
        await route.continue_()

    await console.page.route("**/console/workloads", hold)
    await asked.wait()
    pod = await new_pod(fresh.seeded())
    await console.press("Pause updates")
    async with console.page.expect_request_finished():
        released.set()
    await expect(console.page.locator("#live")).to_have_text("Paused")
    await expect(console.row(pod["id"])).to_have_count(0)


async def test_a_cloud_that_is_gone_and_comes_back_is_noticed(
    browser: Browser, start_server: StartServer, tmp_path: Path
) -> None:
    flags = ("--port", "--inference-port", "--gateway-port", "--ssh-port")
    ports = (part for flag in flags for part in (flag, str(free_port())))
    kept = ("--state", str(tmp_path / "state"), "--clock", "frozen", *ports)
    first = start_server(*kept)
    async with console_of(browser, first.ready["consoleUrl"]) as console:
        await console.open("/console/workloads")
        live = console.page.locator("#live")
        await expect(live).to_have_text("Live")
        first.kill()
        await expect(live).to_have_text("The cloud does not answer; trying again")
        again = start_server(*kept)
        await expect(live).to_have_text("Live")
        pod = await new_pod(again.seeded())
        await expect(console.row(pod["id"])).to_be_visible()
        console.troubles.clear()  # the browser notes each request that went nowhere


async def test_from_an_organization_that_is_not_there_a_link_leads_back(console: Console) -> None:
    await console.open("/console/workloads?org=org_nobody")
    await expect(console.page.get_by_role("alert")).to_contain_text("There is no organization")
    await console.page.get_by_role("link", name="Go back").click()
    await expect(console.page.get_by_role("heading", level=1)).to_have_text("Workloads")
    (noted,) = console.troubles
    assert "404 (Not Found)" in noted
    console.troubles.clear()
