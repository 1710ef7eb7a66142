"""The console in a real browser: pages that are watched while they are open."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from playwright.async_api import Browser, ConsoleMessage, Locator, Page, Request, async_playwright, expect

from tests.support import browser as browsers
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.toolchain import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

PAGES = (
    "/",
    "/console/workloads",
    "/console/keys",
    "/console/nodes",
    "/console/money",
    "/console/costs",
    "/console/quotas",
    "/console/batches",
    "/console/webhooks",
    "/console/requests",
    "/console/playground",
    "/console/audit",
    "/console/faults",
    "/console/outbox",
    "/console/clock",
    "/console/settings",
)
SCREENSHOTS = REPOSITORY / ".screenshots"
"""Where people look at what the tests saw (docs/localcloud/console.md)."""

LONGEST_WAIT_MS = 1000 * PATIENCE_SECONDS
expect.set_options(timeout=LONGEST_WAIT_MS)


@asynccontextmanager
async def open_browser() -> AsyncIterator[Browser]:
    """The browser, until the end."""
    chosen = browsers.browser()
    async with async_playwright() as playwright:
        started = await playwright.chromium.launch(
            executable_path=chosen.executable, args=list(browsers.FLAGS), env={**os.environ, **chosen.environment}
        )
        yield started
        await started.close()


@dataclass
class Console:
    """One open page of one local cloud; `troubles` is what no page may ever have."""

    page: Page
    url: str
    troubles: list[str] = field(default_factory=list)

    async def open(self, path: str = "/") -> None:
        """Go to a page by its address."""
        await self.page.goto(self.url + path)

    async def go(self, name: str) -> None:
        """Go to a page by its link."""
        await self.page.get_by_role("navigation", name="Console").get_by_role("link", name=name, exact=True).click()
        await expect(self.page.get_by_role("heading", level=1)).to_have_text(name)

    async def press(self, name: str, within: Locator | None = None) -> None:
        """Press a button by the beginning of its name."""
        await (within or self.page.locator("body")).get_by_role("button", name=name).first.click()

    def row(self, key: str) -> Locator:
        """A row of a table, or a node's card, by its id."""
        return self.page.locator(f'[id="{key}"]')

    async def has_said(self, text: str) -> None:
        """Return once the page says this of what was done."""
        await expect(self.page.locator("#notice")).to_contain_text(text)

    async def picture(self, name: str) -> Path:
        """Keep the whole page as a picture for people."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        path = SCREENSHOTS / f"{name}.png"
        await self.page.screenshot(path=path, full_page=True)
        return path


@asynccontextmanager
async def console_of(browser: Browser, url: str, **context: Any) -> AsyncIterator[Console]:
    """A fresh browser context with one page; at the end nothing may have gone wrong in it."""
    context.setdefault("viewport", {"width": 1280, "height": 800})
    opened = await browser.new_context(**context)
    opened.set_default_timeout(LONGEST_WAIT_MS)
    console = Console(await opened.new_page(), url.rstrip("/"))
    own = urlsplit(url).netloc

    def heard(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            console.troubles.append(f"{message.type}: {message.text}")

    def asked(request: Request) -> None:
        if urlsplit(request.url).netloc != own:
            console.troubles.append(f"asked elsewhere: {request.url}")

    console.page.on("console", heard)
    console.page.on("pageerror", lambda error: console.troubles.append(f"exception: {error}"))
    console.page.on("dialog", lambda dialog: console.troubles.append(f"dialog: {dialog.message}"))
    console.page.on("request", asked)
    yield console
    await opened.close()
    assert console.troubles == []
