"""The page of one webhook delivery: what was sent, to whom, and what it was answered."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from relay_localcloud.webhooks.webhooks import FORGOTTEN_AT_ONCE
from tests.localcloud.support.events import create_webhook, deliveries_of, settle
from tests.localcloud.support.pages import QUOTES, SCRIPT, page, text_of
from tests.localcloud.support.workloads import happens, running_pod

if TYPE_CHECKING:
    from tests.localcloud.support.receiver import Receiver
    from tests.localcloud.support.server import Server


async def test_a_delivery_shows_what_was_sent_and_every_answer(fresh: Server, receiver: Receiver) -> None:
    owner = fresh.seeded()
    receiver.answers.append(500)
    webhook = await create_webhook(owner, receiver, "vm.running")
    pod = await running_pod(owner)
    await settle(owner)
    (failed,) = await deliveries_of(owner, webhook)
    waits = text_of(await page(fresh, f"/console/delivery?id={failed['deliveryId']}"))
    assert "Next attempt in 10 s" in waits
    await fresh.advance(10)
    (sent,) = {received.raw for received in receiver.received}
    for identifier in (failed["deliveryId"], failed["id"]):
        answer = await page(fresh, f"/console/delivery?id={identifier}")
        shown = text_of(answer)
        assert "Next attempt none" in shown
        assert receiver.url in shown
        assert [shown.count(f" {status} ") for status in (500, 200)] == [1, 1]
        assert text_of_json(json.loads(sent)) in shown
        assert pod in shown
        assert webhook["secret"] not in answer.raw.decode()
    listed = (await page(fresh, "/console/webhooks")).raw.decode()
    assert f'href="/console/delivery?id={failed["deliveryId"]}"' in listed


def text_of_json(document: object) -> str:
    """As it is on the page, in one line."""
    return " ".join(json.dumps(document, indent=2).split())


async def test_a_delivery_of_a_deleted_subscription_is_readable_until_it_is_forgotten(
    fresh: Server, receiver: Receiver
) -> None:
    owner = fresh.seeded()
    webhook = await create_webhook(owner, receiver)
    await running_pod(owner)
    await settle(owner)
    state = await fresh.ok("GET", "/export")
    (made,) = kept = state["tables"]["webhook_deliveries"]
    kept[:0] = [{**made, "id": f"{made['id']}_{number}"} for number in range(FORGOTTEN_AT_ONCE)]
    await fresh.ok("POST", "/import", state)
    path = f"/console/delivery?id={made['id']}"
    assert "Replay" in text_of(await page(fresh, path))
    await owner.ok("DELETE", f"/v1/orgs/{{org}}/webhooks/{webhook['id']}")
    shown = text_of(await page(fresh, path))
    assert "Subscription deleted" in shown
    assert '"type": "vm.running"' in shown
    assert "Replay" not in shown
    await fresh.advance(1)
    assert (await page(fresh, path)).status == 404


async def test_what_a_payload_says_is_text_and_no_token(fresh: Server, receiver: Receiver) -> None:
    owner = fresh.seeded()
    webhook = await create_webhook(owner, receiver, "cluster.failed")
    made = await owner.ok("POST", "/v1/orgs/{org}/clusters/create", {"name": "llm", "gpuModelId": "h100"})
    await happens(owner, made["id"], "fail", reason=f"{SCRIPT}{QUOTES} {owner.api_key}")
    await settle(owner)
    (failed,) = await deliveries_of(owner, webhook)
    answer = await page(fresh, f"/console/delivery?id={failed['deliveryId']}")
    assert answer.status == 200
    assert b"<script>" not in answer.raw
    assert b"<img" not in answer.raw
    assert owner.api_key not in answer.raw.decode()


@pytest.mark.parametrize("query", ["", "?id=", "?id=whd_gone", "?id=%3Cscript%3E"])
async def test_a_delivery_that_is_not_there_is_a_page_that_says_so(server: Server, query: str) -> None:
    answer = await page(server, f"/console/delivery{query}")
    assert answer.status == 404
    assert "There is no delivery" in text_of(answer)
    assert b'<a href="/console/webhooks">Go back</a>' in answer.raw
