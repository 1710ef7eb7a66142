"""Searching: whatever has an id or a name is found by a part of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from playwright.async_api import expect

from tests.localcloud.console.test_pages import QUOTES, page, text_of
from tests.localcloud.support import batches, clusters, deployments
from tests.localcloud.support.events import create_webhook, settle
from tests.localcloud.support.workloads import new_pod

if TYPE_CHECKING:
    from tests.localcloud.support.browsing import Console
    from tests.localcloud.support.receiver import Receiver
    from tests.localcloud.support.server import Server


async def links(server: Server, part: str) -> list[str]:
    """Where the results lead."""
    shown = (await page(server, f"/console/search?q={quote(part)}")).raw.decode()
    return re.findall(r'<li><a href="([^"]+)"><strong>', shown)


async def test_every_kind_is_found_by_its_id_and_each_result_leads_to_a_page(fresh: Server, receiver: Receiver) -> None:
    owner = fresh.seeded()
    await create_webhook(owner, receiver)
    pod = await new_pod(owner, name="Trainer")
    cluster, deployment = await clusters.running(owner), await deployments.running(owner)
    batch = await batches.run(owner, [batches.record("first")])
    await settle(owner)
    delivery = (await fresh.ok("GET", "/deliveries"))["items"][0]["deliveryId"]
    node = (await fresh.ok("GET", "/nodes"))["items"][0]["id"]
    wanted = (pod["id"], cluster, deployment, batch["id"], batch["input_file_id"], delivery, node, owner.id)
    for identifier in wanted:
        found = await links(fresh, identifier)
        assert any(identifier in link for link in found), identifier
        assert [(await page(fresh, link)).status for link in found] == [200] * len(found)
    assert f"/console/workload?id={pod['id']}" in await links(fresh, "RAINE")


async def test_more_than_fit_are_said_to_be_there(fresh: Server) -> None:
    for number in range(11):
        await new_pod(fresh.seeded(), name=f"pod-{number:02}", gpuModelId="l40s")
    shown = text_of(await page(fresh, "/console/search?q=pod-"))
    assert ("pod-10" in shown, "pod-00" in shown) == (True, False)
    assert "There are more: give a longer part." in shown


@pytest.mark.parametrize("part", ["", " ", "nothing has this", QUOTES, "%", "_", "\0", "é" * 5000])
async def test_what_finds_nothing_is_said(server: Server, part: str) -> None:
    answer = await page(server, f"/console/search?q={quote(part)}")
    assert answer.status == 200
    assert b"<img" not in answer.raw
    wanted = "in its id or its name." if part.strip() and part != "_" else "Give a part" if not part.strip() else "_"
    assert wanted in text_of(answer)


@pytest.mark.asyncio(loop_scope="session")
async def test_a_person_searches_from_any_page(console: Console, fresh: Server) -> None:
    await new_pod(fresh.seeded(), name="trainer")
    await console.open("/console/nodes")
    await console.page.get_by_label("Search").fill("train")
    await console.page.keyboard.press("Enter")
    await expect(console.page.get_by_role("heading", level=1)).to_have_text("Search")
    await console.page.get_by_role("link", name="trainer").click()
    await expect(console.page.get_by_role("heading", level=1)).to_have_text("trainer")
