"""The page of one batch: its counts, what is wrong with it, and the first of its answers and errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.localcloud.support import batches
from tests.localcloud.support.batches import record
from tests.localcloud.support.inference import call
from tests.localcloud.support.pages import SCRIPT, page, text_of

if TYPE_CHECKING:
    from tests.localcloud.support.server import Server


async def test_a_batch_shows_its_counts_answers_and_errors(fresh: Server) -> None:
    owner = fresh.seeded()
    records = [*(record(f"good-{number}", f"hello {number}") for number in range(12)), record("bad", max_tokens=-1)]
    made = await batches.run(owner, records)
    assert made["status"] == "completed"
    shown = text_of(await page(fresh, f"/console/batch?id={made['id']}"))
    counts = made["request_counts"]
    assert f"Records {counts['total']} {counts['completed']} completed, {counts['failed']} failed" in shown
    assert "completed" in shown
    assert "good-0 " in shown
    assert "hello 0" in shown
    assert "good-9 " in shown
    assert "good-10" not in shown
    assert f"The first 10 of {counts['completed']}" in shown
    assert "bad " in shown.partition("Errors")[2]
    listed = (await page(fresh, "/console/batches")).raw.decode()
    assert f'href="/console/batch?id={made["id"]}"' in listed


async def test_a_batch_that_failed_says_why(fresh: Server) -> None:
    made = await batches.run(fresh.seeded(), [{"custom_id": "a"}, *({"odd": n} for n in range(40))])
    assert made["status"] == "failed"
    shown = text_of(await page(fresh, f"/console/batch?id={made['id']}"))
    assert "Why it failed" in shown
    assert "invalid_method in line 1: method: it must be POST." in shown
    assert "missing_custom_id in line 2" in shown


async def test_answers_are_text_and_a_deleted_file_is_said_to_be(fresh: Server) -> None:
    owner = fresh.seeded()
    made = await batches.run(owner, [record(SCRIPT, f"{SCRIPT} {owner.api_key} " + "long " * 400)])
    answer = await page(fresh, f"/console/batch?id={made['id']}")
    assert answer.status == 200
    assert b"<script>" not in answer.raw
    assert owner.api_key not in answer.raw.decode()
    assert len(answer.raw) < 32 * 1024
    deleted = await call(owner, "DELETE", f"/v1/files/{made['output_file_id']}")
    assert deleted.status == 200
    assert "Its file was deleted." in text_of(await page(fresh, f"/console/batch?id={made['id']}"))


@pytest.mark.parametrize("query", ["", "?id=", "?id=batch_gone", "?id=%3Cscript%3E"])
async def test_a_batch_that_is_not_there_is_a_page_that_says_so(server: Server, query: str) -> None:
    answer = await page(server, f"/console/batch{query}")
    assert answer.status == 404
    assert "There is no batch" in text_of(answer)
    assert b'<a href="/console/batches">Go back</a>' in answer.raw
