"""The page of settings: each can be changed, and what it cannot be is said beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.async_api import expect

from tests.localcloud.support.pages import page, refusal, send, text_of, wrong

if TYPE_CHECKING:
    from tests.localcloud.support.browsing import Console
    from tests.localcloud.support.server import Answer, Server


async def change(server: Server, **form: str) -> Answer:
    return await send(server, "settings", "/console/settings", **form)


async def test_every_setting_is_there_and_is_sent_back_as_it_is(fresh: Server) -> None:
    before = await fresh.ok("PATCH", "/settings", {})
    shown = (await page(fresh, "/console/settings")).raw.decode()
    assert [f'<input id="{name}"' in shown for name in before] == [True] * len(before)
    for name, value in before.items():
        written = "" if value is None else f"{value:g}" if isinstance(value, float) else str(value).lower()
        assert f'name="{name}" value="{written}"' in shown
        assert (await change(fresh, **{name: written})).status == 303
    assert await fresh.ok("PATCH", "/settings", {}) == before


@pytest.mark.parametrize(
    ("name", "value", "kept"),
    [
        ("stopSeconds", "2.5", 2.5),
        ("cpuSlots", " 7 ", 7),
        ("allowLoopbackExecutors", "true", True),
        ("rateLimitPerSecond", "10", 10),
        ("rateLimitPerSecond", "", None),
        ("inferenceFloorCents", "-5", -5),
    ],
)
async def test_a_setting_is_changed(fresh: Server, name: str, value: str, kept: object) -> None:
    answer = await change(fresh, **{name: value})
    assert (answer.status, answer.headers["location"]) == (303, "/console/settings?done=setting")
    assert (await fresh.ok("PATCH", "/settings", {}))[name] == kept


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("stopSeconds", ""),
        ("stopSeconds", "-1"),
        ("stopSeconds", "soon"),
        ("stopSeconds", "NaN"),
        ("stopSeconds", "1e400"),
        ("stopSeconds", "9" * 500),
        ("cpuSlots", "1.5"),
        ("cpuSlots", "true"),
        ("cpuSlots", "[1]"),
        ("capacityStatus", "200"),
        ("allowLoopbackExecutors", "1"),
    ],
)
async def test_what_a_setting_cannot_be_is_said_beside_it(server: Server, name: str, value: str) -> None:
    before = await server.ok("PATCH", "/settings", {})
    assert wrong(await change(server, **{name: value}))[:2] == (400, name)
    assert await server.ok("PATCH", "/settings", {}) == before
    assert refusal(await change(server, nonsense="1")) == (400, "There is no such setting.")


@pytest.mark.asyncio(loop_scope="session")
async def test_a_person_changes_a_setting(console: Console, fresh: Server) -> None:
    await console.open()
    await console.go("Settings")
    row = console.row("setting-stopSeconds")
    await row.get_by_role("textbox", name="stopSeconds").fill("soon")
    await console.press("Change", row)
    await expect(console.page.locator("#stopSeconds-wrong")).to_contain_text("valid number")
    console.troubles.clear()  # the browser notes the 400
    await row.get_by_role("textbox", name="stopSeconds").fill("30")
    await console.press("Change", row)
    await console.has_said("The setting was changed.")
    await expect(console.page.locator("#stopSeconds-wrong")).to_be_hidden()
    assert (await fresh.ok("PATCH", "/settings", {}))["stopSeconds"] == 30
    assert "stopSeconds" in text_of(await page(fresh, "/console/settings"))
