"""The page of costs: what each day came to, by workload."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.localcloud.support.pages import QUOTES, page, text_of
from tests.localcloud.support.workloads import act, running_pod

if TYPE_CHECKING:
    from tests.localcloud.support.server import Server

DAY = 86_400


async def cells(server: Server, path: str = "/console/costs") -> list[list[str]]:
    """The table below the chart, its head included, the oldest day first."""
    shown = (await page(server, path)).raw.decode().partition("As a table")[2].partition("</table>")[0]
    found = re.findall(r"<tr.*?</tr>", shown, re.DOTALL)
    head, *rows = [re.findall(r"<(?:th|div)[^>]*>([^<]*)<", row) for row in found]
    return [head, *rows[::-1]]


async def test_each_day_is_what_the_api_says_and_each_workload_has_its_part(fresh: Server) -> None:
    owner = fresh.seeded()
    await fresh.ok("POST", "/clock", {"set": "2031-03-01T00:00:00Z"})
    first = await running_pod(owner, name="first")
    await fresh.advance(DAY)
    await running_pod(owner, name="second", gpuCount=2)
    await fresh.advance(DAY)
    await act(owner, first, "terminate")
    await fresh.advance(DAY // 2)
    head, *rows = await cells(fresh)
    assert head == ["Day (UTC)", "second", "first", "In all"]
    assert len(rows) == 14
    daily = (await owner.ok("GET", "/v1/orgs/{org}/billing/usage/daily?days=14"))["items"]
    assert [row[0] for row in rows] == [day["date"] for day in daily]
    assert [row[3] for row in rows] == [f"${day['usageCents'] / 100:,.2f}" for day in daily]
    assert rows[-4] == ["2031-02-28", "$0.00", "$0.00", "$0.00"]
    assert rows[-2][2] == "$59.76", "a whole day at $2.49"
    assert rows[-1][1] > rows[-1][2], "the first ended early on the last day"


async def test_more_workloads_than_there_are_colours_are_shown_together(fresh: Server) -> None:
    await fresh.ok("POST", "/clock", {"set": "2031-03-01T00:00:00Z"})
    for number in range(7):
        await running_pod(fresh.seeded(), name=f"pod-{number}")
    await fresh.advance(3600)
    head, *rows = await cells(fresh, "/console/costs?span=week")
    assert head[-2:] == ["all others", "In all"]
    assert len(head) == 8
    assert len(rows) == 7
    assert rows[-1][-2] != "$0.00"


async def test_names_are_text_and_nothing_is_said_of_nothing(fresh: Server) -> None:
    await fresh.ok("POST", "/clock", {"set": "2031-03-01T00:00:00Z"})
    assert "Nothing has cost anything in these days." in text_of(await page(fresh, "/console/costs?span=odd"))
    other = await fresh.organization(name=QUOTES)
    await running_pod(other, name="pod")
    await fresh.advance(3600)
    answer = await page(fresh, f"/console/costs?org={other.id}")
    assert b"<img" not in answer.raw
    assert "$2.49 in all" in text_of(answer)
