"""The console on a phone, with a keyboard alone, without scripts, in light and in dark."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
from playwright.async_api import expect

from tests.localcloud.support import batches, clusters, deployments
from tests.localcloud.support.browsing import PAGES, Console, console_of
from tests.localcloud.support.events import create_webhook
from tests.localcloud.support.pages import PUBLIC_KEY
from tests.localcloud.support.receiver import Receiver
from tests.localcloud.support.workloads import happens, new_pod, running_pod
from tests.support.axe import axe

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page, ViewportSize

    from tests.localcloud.support.server import Server

pytestmark = pytest.mark.asyncio(loop_scope="session")

DESKTOP: ViewportSize = {"width": 1280, "height": 800}
PHONE: dict[str, Any] = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}

# The lowest contrast of any text with what is behind it, and that text (WCAG 2.2, 1.4.3).
CONTRAST = """() => {
  const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const luminance = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const colour = numbers(getComputedStyle(each).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  let worst = [21, "nothing"];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || !element.checkVisibility() || element.closest(".unseen, option")) continue;
    const [a, b] = [numbers(getComputedStyle(element).color), behind(element)].map(luminance);
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < worst[0]) worst = [contrast, `${element.tagName}.${element.className}: ${texts.currentNode.data}`];
  }
  return worst;
}"""

# What is wider than the part of the page that holds it, and how wide the page is.
WIDTHS = """() => [
  [...document.querySelectorAll('main *, header *, .ways *')].filter((e) =>
    !e.closest('.unseen, thead, svg, .long, #skip') && e.offsetWidth
    && e.getBoundingClientRect().right > e.closest('main, header, .ways').getBoundingClientRect().right
  ).map((e) => e.outerHTML.slice(0, 200)),
  document.documentElement.scrollWidth,
]"""

UNNAMED = """[...document.querySelectorAll('button, a, select, input:not([type=hidden])')].filter(
  (e) => !(e.textContent.trim() || e.labels?.length || e.getAttribute('aria-label'))).map((e) => e.outerHTML)"""

LONG_NAME = "a_name_as_long_as_names_may_be_and_without_any_place_to_break"
FOCUSED = "document.activeElement.textContent.trim()"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def busy(server: Server) -> Server:
    """A local cloud in which something of everything has happened, long names and errors included."""
    organization = server.seeded()
    async with Receiver([500]) as receiver:
        await create_webhook(organization, receiver)
        await running_pod(organization, name=LONG_NAME, gpuCount=4)
        failed = await running_pod(organization, name="failed", unread="field")
        await happens(organization, failed, "fail")
        cluster = {"name": "llm", "gpuModelId": "h100", "replicaCount": 3, "imageUrl": "vllm/vllm-openai:latest"}
        await organization.ok("POST", "/v1/orgs/{org}/clusters/create", cluster)
        await server.ok("POST", f"/orgs/{organization.id}/invites", {"email": "ada@example.test", "role": "member"})
        await server.ok("POST", "/faults", {"operation": "POST /v1/pods", "effect": {"drop": "after"}, "skip": 5})
        await server.advance(7200)
        node = (await server.ok("GET", "/nodes"))["items"][0]
        await server.ok("PATCH", f"/nodes/{node['id']}", {"reporting": False})
    return server


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def every_page(busy: Server) -> dict[str, str]:
    """The address of every page by a name for its picture, of single objects with one of each kind."""
    organization = busy.seeded()
    pod = await new_pod(organization, name="again", envVars={"A": "b"})
    named = await new_pod(organization, name=f"{LONG_NAME}_")
    vm = {"name": "box", "gpuModelId": "a100", "cloudInit": "#!/bin/sh", "healthCheckPath": "/health"}
    made = await organization.ok("POST", "/v1/orgs/{org}/vms/create", vm)
    cluster = await clusters.create(organization, name="other")
    deployment = await deployments.create(organization)
    batch = await batches.run(organization, [batches.record("first"), batches.record("second", max_tokens=-1)])
    delivery = (await busy.ok("GET", "/deliveries"))["items"][0]
    key = {"name": LONG_NAME, "publicKey": PUBLIC_KEY}
    await organization.ok("POST", "/v1/orgs/{org}/ssh-keys/create", key)
    objects = {
        **{f"create-{noun}": f"/console/workloads?create={noun}" for noun in ("pods", "vms", "clusters")},
        "workload-pod": f"/console/workload?id={pod['id']}",
        "workload-named": f"/console/workload?id={named['id']}",
        "workload-vm": f"/console/workload?id={made['id']}",
        "workload-cluster": f"/console/workload?id={cluster['id']}",
        "workload-deployment": f"/console/workload?id={deployment['id']}",
        "delivery": f"/console/delivery?id={delivery['deliveryId']}",
        "batch": f"/console/batch?id={batch['id']}",
        "search": "/console/search?q=o",
    }
    return {path.rpartition("/")[2] or "overview": path for path in PAGES} | objects


@pytest.fixture(scope="module")
def pictures(pytestconfig: pytest.Config) -> bool:
    """Whether somebody wants to look at the pages; taking pictures costs a quarter of the CPU of this file."""
    return bool(pytestconfig.getoption("--pictures"))


async def test_every_page_fits_on_a_phone(
    browser: Browser, busy: Server, every_page: dict[str, str], pictures: bool
) -> None:
    too_small = """[...document.querySelectorAll('button, select, nav a, label:has(input)')].filter(
        (e) => e.checkVisibility() && e.offsetHeight < 24).length"""
    async with console_of(browser, busy.ready["consoleUrl"], **PHONE) as console:
        for name, path in every_page.items():
            await console.open(path)
            assert await console.page.evaluate("document.documentElement.scrollWidth") == 360, path
            assert await console.page.evaluate(too_small) == 0, path
            await console.page.get_by_label("Menu").check()
            assert await console.page.evaluate("document.documentElement.scrollWidth") == 360, path
            assert await console.page.evaluate(too_small) == 0, path
            await console.page.get_by_label("Menu").uncheck()
            if pictures:
                await console.picture(f"phone-{name}")


@pytest.mark.parametrize("scripts", [True, False])
async def test_on_a_phone_the_header_leaves_three_quarters_to_the_page(
    browser: Browser, busy: Server, scripts: bool
) -> None:
    phone: dict[str, Any] = {**PHONE, "viewport": {"width": 375, "height": 740}, "java_script_enabled": scripts}
    async with console_of(browser, busy.ready["consoleUrl"], **phone) as console:
        await console.open()
        box = await console.page.locator("main").bounding_box()
        assert box is not None
        assert box["y"] <= 740 / 4
        ways = console.page.get_by_role("navigation", name="Console")
        await expect(ways).to_be_hidden()
        await expect(console.page.get_by_label("Organization")).to_be_hidden()
        await console.page.get_by_label("Menu").focus()
        await console.page.keyboard.press("Space")
        await expect(console.page.get_by_label("Organization")).to_be_visible()
        await console.picture("phone-menu")
        await console.go("Nodes")
        await expect(ways).to_be_hidden()


async def unreadable(page: Page) -> str:
    """The text that stands out the least from what is behind it, if that is too little."""
    contrast, text = await page.evaluate(CONTRAST)
    return f"{contrast:.2f} of {text}" if contrast < 4.5 else ""


async def unnamed(page: Page) -> list[str]:
    """Controls without a name."""
    found: list[str] = await page.evaluate(UNNAMED)
    return found


async def not_once(page: Page) -> list[str]:
    """What there is not exactly one of: a heading, where one is in the navigation, each id."""
    ids = await page.evaluate("[...document.querySelectorAll('[id]')].map((e) => e.id)")
    once = {f"#{each}": count for each, count in Counter(ids).items()}
    once["heading"] = await page.get_by_role("heading", level=1).count()
    once["current page"] = await page.locator("nav [aria-current=page]").count()
    return [f"{count} times {each}" for each, count in once.items() if count != 1]


async def unfolded(page: Page) -> None:
    """Open all that can be opened."""
    await page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    await page.evaluate("document.getElementById('menu').checked = true")


async def violations(page: Page) -> list[str]:
    """What axe finds wrong."""
    await page.evaluate(axe())
    run = "axe.run(document).then((r) => r.violations.map((v) => [v.id, v.help, ...v.nodes.map((n) => n.html)].join()))"
    found: list[str] = await page.evaluate(run)
    return found


async def too_wide(page: Page) -> list[str]:
    """What sticks out of its part of the page at some width, and the widths at which the page scrolls sideways."""
    found: list[str] = []
    for width in (320, 480, 740, 768, 1024, 1272, 1273, 1920):
        await page.set_viewport_size({"width": width, "height": 800})
        sticks_out, scrolled = await page.evaluate(WIDTHS)
        found += [f"at {width}: {each}" for each in sticks_out]
        found += [f"at {width}: scrolls to {scrolled}"] if scrolled != width else []
    await page.set_viewport_size(DESKTOP)
    return found


async def test_every_page_has_readable_texts_and_named_controls_and_fits_at_any_width(
    browser: Browser, busy: Server, every_page: dict[str, str], pictures: bool
) -> None:
    wrong: dict[tuple[str, str], object] = {}
    async with console_of(browser, busy.ready["consoleUrl"], viewport=DESKTOP, color_scheme="light") as console:
        for name, path in every_page.items():
            await console.open(path)
            wrong[path, "unreadable"] = await unreadable(console.page)
            wrong[path, "unnamed"] = await unnamed(console.page)
            wrong[path, "not once"] = await not_once(console.page)
            if pictures:
                await console.picture(f"light-{name}")
            await unfolded(console.page)
            wrong[path, "axe"] = await violations(console.page)
            wrong[path, "too wide"] = await too_wide(console.page)
        told = [f"{path}, {check}: {found}" for (path, check), found in wrong.items() if found]
        assert not told, "\n".join(told)


async def test_every_text_can_be_read_in_the_dark(
    browser: Browser, busy: Server, every_page: dict[str, str], pictures: bool
) -> None:
    async with console_of(browser, busy.ready["consoleUrl"], color_scheme="dark") as console:
        for name, path in every_page.items():
            await console.open(path)
            assert await unreadable(console.page) == "", path
            if pictures:
                await console.picture(f"dark-{name}")


@pytest.mark.long
async def test_axe_finds_nothing_wrong_on_a_phone(browser: Browser, busy: Server, every_page: dict[str, str]) -> None:
    async with console_of(browser, busy.ready["consoleUrl"], **PHONE) as console:
        for path in every_page.values():
            await console.open(path)
            await unfolded(console.page)
            assert await violations(console.page) == [], path


async def tab_to(page: Page, text: str) -> None:
    """Press Tab until what has the focus begins with this text."""
    for _ in range(80):
        await page.keyboard.press("Tab")
        if (await page.evaluate(FOCUSED)).startswith(text):
            return
    raise AssertionError(f"Tab does not lead to {text}")


async def test_the_first_tab_skips_to_the_content(console: Console) -> None:
    await console.open()
    await console.page.keyboard.press("Tab")
    assert await console.page.evaluate(FOCUSED) == "Skip to the content"
    await expect(console.page.get_by_text("Skip to the content")).to_be_in_viewport()
    await console.page.keyboard.press("Enter")
    assert await console.page.evaluate("document.activeElement.id") == "main"


async def test_the_clock_is_moved_and_a_node_taken_down_by_keyboard_alone(console: Console, fresh: Server) -> None:
    pod = await new_pod(fresh.seeded(), name="trainer")
    page = console.page
    await console.open()
    await tab_to(page, "+1 min")
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert await page.evaluate(outline) == "solid"
    await page.keyboard.press("Enter")
    await expect(console.row(pod["id"])).to_contain_text("running")
    assert (await page.evaluate(FOCUSED)).startswith("+1 min"), "the focus was lost"

    await tab_to(page, "Nodes")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", level=1)).to_have_text("Nodes")
    await tab_to(page, "trainer")
    await page.keyboard.press("Tab")
    assert (await page.evaluate(FOCUSED)).startswith("Take down")
    await page.keyboard.press("Enter")
    await console.has_said("The node no longer reports")
    assert (await page.evaluate(FOCUSED)).startswith("Bring back"), "the focus was lost"


async def test_it_works_without_scripts(browser: Browser, fresh: Server) -> None:
    pod = await new_pod(fresh.seeded(), name="trainer")
    async with console_of(browser, fresh.ready["consoleUrl"], java_script_enabled=False) as console:
        await console.open("/console/workloads")
        await expect(console.row(pod["id"])).to_contain_text("deploying")
        await console.press("+1 min")
        await console.has_said("The clock was moved on")
        await expect(console.row(pod["id"])).to_contain_text("running")
        await console.go("Faults")
        await console.page.get_by_label("Operation").fill("nonsense")
        await console.press("Add the fault")
        await expect(console.page.get_by_role("alert")).to_contain_text("'nonsense' is not served")
        console.troubles.clear()  # the browser notes the 400
