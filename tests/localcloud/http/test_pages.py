"""A page of a list ends where it has as many items as were asked for, or consists of too many parts; all lists page."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

from relay_localcloud.http.pages import MOST_PARTS, Page, among
from tests.localcloud.http.values import resolved
from tests.localcloud.support.everything import MADE_BY, ORG, VM, Everything, Operation, everything

if TYPE_CHECKING:
    from tests.localcloud.support.server import Answer, Server

ITEMS = (*MADE_BY, f"{ORG}/members/{{userId}}", f"{ORG}/billing/payment-methods/{{paymentMethodId}}")
"""The paths of items that `Everything.value` makes."""
WHOLE = {
    "/v1/gpu-models",
    "/v1/gpu-availability",
    "/v1/locations",
    "/v1/pods/capacity",
    "/v1/vm-templates",
    f"{ORG}/quotas",
    f"{ORG}/ai/proxy-usage",
    f"{ORG}/billing/usage/daily",
    f"{ORG}/provider/earnings",
}
"""Catalogs and reports, whose `items` come whole."""
NO_PAGES = ("limit=0", "limit=201", "limit=abc", "limit=-1", "cursor=abc")


@dataclass
class Row:
    sequence: int
    parts: int = 1


def pages(rows: list[Row], limit: int) -> list[list[int]]:
    """The numbers of the items on each page, to the end."""
    found: list[list[int]] = []
    cursor: str | None = None
    while not found or cursor is not None:
        page = Page(limit, cursor).newest(
            "rows",
            "org",
            lambda before, count: [row for row in reversed(rows) if before is None or row.sequence < before][:count],
            lambda row: row.sequence,
            lambda row: row.parts,
        )
        items, following = page["items"], page.get("nextCursor")
        assert isinstance(items, list)
        assert following is None or isinstance(following, str)
        found, cursor = [*found, items], following
    return found


def test_few_parts_end_no_page() -> None:
    assert pages([Row(number) for number in range(5)], 2) == [[4, 3], [2, 1], [0]]
    assert pages([Row(number, 0) for number in range(4)], 2) == [[3, 2], [1, 0]]
    assert pages([], 2) == [[]]


@pytest.mark.parametrize(("beyond", "ends"), [(-1, [[3, 2, 1], [0]]), (0, [[3, 2], [1, 0]]), (1, [[3, 2], [1, 0]])])
def test_many_parts_end_a_page_before_there_are_too_many(beyond: int, ends: list[list[int]]) -> None:
    sizes = [5, MOST_PARTS // 2 + beyond, MOST_PARTS // 2, 10 * MOST_PARTS]
    assert pages([Row(number, parts) for number, parts in enumerate(sizes)], 4) == ends


def test_pages_with_the_oldest_first_end_without_a_cursor_and_pass_over_what_is_gone() -> None:
    placed = [(place, str(place)) for place in (0, 1, 5, 6)]
    first = Page(2, None).oldest("rows", "org", among(placed), lambda row: row)
    assert first["items"] == ["0", "1"]
    cursor = first["nextCursor"]
    assert isinstance(cursor, str)
    assert Page(2, cursor).oldest("rows", "org", among(placed), lambda row: row) == {"items": ["5", "6"]}
    left = [(0, "0"), (6, "6"), (7, "7")]
    assert Page(2, cursor).oldest("rows", "org", among(left), lambda row: row) == {"items": ["6", "7"]}
    assert Page(2, None).oldest("rows", "org", among([]), lambda row: row) == {"items": []}


async def test_every_list_that_grows_has_pages(server: Server) -> None:
    known = await everything(server)
    paged: set[str] = set()
    whole: set[str] = set()
    for operation in known.operations():
        if operation.method == "GET" and "items" in fields(known, operation):
            has = {parameter["name"] for parameter in operation.description.get("parameters", ())}
            assert ("limit" in has) == ("cursor" in has), operation.name
            (paged if "limit" in has else whole).add(operation.template)
    assert whole == WHOLE
    assert len(paged) >= 14


async def test_every_list_is_read_page_by_page_in_its_order(server: Server) -> None:
    known = await everything(server)
    foreign = "abc"
    for operation in known.operations():
        if not any(parameter["name"] == "cursor" for parameter in operation.description.get("parameters", ())):
            continue
        path = await known.path(operation)
        await add(known, operation, path)
        await add(known, operation, path)
        every = (await ask(known, operation, path, "limit=200")).body
        assert "nextCursor" not in every, operation.name
        seen, query, cursor = [], "limit=1", ""
        for left in reversed(range(len(every["items"]))):
            page = (await ask(known, operation, path, query)).body
            assert len(page["items"]) == 1, operation.name
            assert bool(page.get("nextCursor")) == (left > 0), operation.name
            seen += page["items"]
            cursor = page.get("nextCursor", cursor)
            query = f"limit=1&cursor={cursor}"
        assert [identity(item) for item in seen] == [identity(item) for item in every["items"]], operation.name
        assert len(seen) > 1, operation.name
        for query in (*NO_PAGES, f"cursor={foreign}"):
            assert (await ask(known, operation, path, query)).status == 400, (operation.name, query)
        foreign = cursor


def fields(known: Everything, operation: Operation) -> dict[str, Any]:
    """The fields of an operation's answer; none if it is not JSON."""
    answered = operation.description["responses"].get("200", {}).get("content", {}).get("application/json", {})
    properties: dict[str, Any] = resolved(answered.get("schema", {}), known.document).get("properties", {})
    return properties


async def ask(known: Everything, operation: Operation, path: dict[str, str], query: str) -> Answer:
    return await known.call(replace(operation, template=f"{operation.template}?{query}"), path)


def identity(item: dict[str, Any]) -> str:
    return str(item.get("id") or item["userId"])


async def add(known: Everything, operation: Operation, path: dict[str, str]) -> None:
    """Add something to a list."""
    organization, server = known.organization, known.organization.server
    match operation.template:
        case "/v1/orgs/{orgId}/provider/nodes":
            await server.ok("POST", "/nodes", {"gpuModelId": "l40s", "gpuCount": 1, "orgId": organization.id})
        case "/v1/orgs/{orgId}/provider/nodes/{nodeId}/reservations":
            at = operation.template.format(**path)
            unit = len((await organization.ok("GET", at))["items"])
            asked = {"unitIds": [f"{path['nodeId']}-gpu{511 - unit}"], "allowedOrgIds": []}
            await organization.ok("POST", at, asked)
        case "/v1/orgs/{orgId}/webhooks/{id}/deliveries":
            await organization.ok("POST", "/v1/orgs/{org}/vms/create", known.unique(VM))
            await server.advance(60)
        case "/v1/inference/models/{modelId}/backends" as template:
            await known.value("/v1/serving/deployments/{id}", path)
            await known.value(f"{template}/{{id}}", path)
        case template:
            (item,) = (each for each in ITEMS if each.split("/")[-2] == template.split("/")[-1])
            await known.value(item, path)
