"""Searching: whatever has an id or a name is found by a part of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

import pytest
from playwright.async_api import expect

import relay_localcloud.app  # noqa: F401 - every table, as in the running cloud
from relay_localcloud.batches.rows import FILES
from relay_localcloud.console import search
from relay_localcloud.console.reading import Reading
from relay_localcloud.console.requested import Requested
from relay_localcloud.kernel.store import Store
from tests.localcloud.support import batches, clusters, deployments
from tests.localcloud.support.events import create_webhook, settle
from tests.localcloud.support.pages import QUOTES, page, text_of
from tests.localcloud.support.stints import steps
from tests.localcloud.support.workloads import new_pod

if TYPE_CHECKING:
    from relay_localcloud.cloud import Cloud
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


async def test_an_old_file_or_subscription_is_on_the_page_that_its_result_leads_to(
    fresh: Server, receiver: Receiver
) -> None:
    owner, text = fresh.seeded(), batches.jsonl([batches.record("first")])
    old = (await batches.upload(owner, text), (await create_webhook(owner, receiver))["id"])
    for _ in range(50):
        await batches.upload(owner, text)
        await create_webhook(owner, receiver)
    for identifier in old:
        (link,) = await links(fresh, identifier)
        assert identifier in text_of(await page(fresh, link))
        nothing = await page(fresh, link.replace(identifier, "gone"))
        assert "It was deleted, or never existed." in text_of(nothing)


async def test_more_than_fit_are_said_to_be_there(fresh: Server) -> None:
    for number in range(11):
        await new_pod(fresh.seeded(), name=f"pod-{number:02}", gpuModelId="l40s")
    shown = text_of(await page(fresh, "/console/search?q=pod-"))
    assert ("pod-10" in shown, "pod-00" in shown) == (True, False)
    assert "There are more: give a longer part." in shown


def test_of_many_the_newest_are_looked_through_and_the_one_with_that_id_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(search, "NEWEST", 20)
    took: list[int] = []
    for count in (100, 1_000):
        with Store.ephemeral().transaction(at=0) as tx:
            for number in range(count):
                named = {"filename": f"name {number}", "purpose": "batch", "bytes": 1, "created_at": 0}
                FILES.insert(tx, id=f"file-{number}", organization_id="org", **named)

            def found(part: str) -> list[str]:
                reading = Reading(tx, cast("Cloud", None), Requested("/console/search", {"q": part}))
                parts: Any = search.content(reading)["found"]
                return [row["id"] for _, rows in parts for row in rows]

            assert found(f"NAME {count - 20}") == [f"file-{count - 20}"]
            assert found(f"name {count - 21}") == []
            assert found("file-7") == ["file-7"]
            took.append(steps(tx, lambda: found("is nowhere")))
    assert took[0] == pytest.approx(took[1], rel=0.2)


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
