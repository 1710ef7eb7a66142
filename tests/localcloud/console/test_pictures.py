"""The pictures in the docs, of one cloud in which a team is at work: `make pictures` takes them again."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import pytest
import pytest_asyncio
from playwright.async_api import expect

from tests.localcloud.support import batches, clusters
from tests.localcloud.support.browsing import console_of
from tests.localcloud.support.events import create_webhook
from tests.localcloud.support.pages import PUBLIC_KEY
from tests.localcloud.support.receiver import Receiver
from tests.localcloud.support.workloads import act, happens, running_pod
from tests.support.toolchain import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.async_api import Browser

    from tests.localcloud.support.server import Server

pytestmark = pytest.mark.asyncio(loop_scope="session")

DOCS: Final = REPOSITORY / "docs/localcloud"
PAGE: Final = DOCS / "console.md"
DAY: Final = 86_400


@dataclass(frozen=True)
class Picture:
    """What a picture shows, and of which size; its name is its file's."""

    path: str
    """Of the page; `{...}` is the id of a workload of this name."""
    scheme: Literal["light", "dark"]
    width: int = 1280
    height: int = 758

    @property
    def context(self) -> dict[str, Any]:
        """The browser's."""
        on_phone = {"has_touch": True, "is_mobile": True} if self.width < 500 else {}
        return {"viewport": {"width": self.width, "height": self.height}, "color_scheme": self.scheme, **on_phone}


PICTURES: Final = {
    "console-overview": Picture("/", "light", height=882),
    "console-costs": Picture("/console/costs?span=week", "light", height=582),
    "console-create": Picture("/console/workloads?create=vms", "light", height=620),
    "console-nodes": Picture("/console/nodes", "dark"),
    "console-workload": Picture("/console/workload?id={trainer}", "dark", height=820),
    "console-phone-overview": Picture("/", "light", 375, 740),
    "console-phone-workload": Picture("/console/workload?id={llm}", "dark", 375, 700),
}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def team(server: Server) -> dict[str, str]:
    """What a team has after a week: its workloads by name, some of them in trouble."""
    owner = server.seeded()
    await server.ok("POST", "/clock", {"set": "2031-03-03T09:00:00Z"})
    await server.ok("PATCH", f"/orgs/{owner.id}", {"balanceCents": 250_000})
    async with Receiver() as receiver:
        await create_webhook(owner, receiver)
        made = {"trainer": await running_pod(owner, name="trainer", gpuCount=2, public=True)}
        made["sweep"] = await running_pod(owner, name="sweep", gpuModelId="a100", gpuCount=4)
        await server.advance(2 * DAY)
        await act(owner, made["sweep"], "terminate")
        made["llm"] = await clusters.running(owner, gpuModelId="a100", replicaCount=3)
        made["notebook"] = await running_pod(owner, name="notebook", gpuModelId="l40s")
        await server.advance(2 * DAY)
        key = await owner.ok("POST", "/v1/orgs/{org}/ssh-keys/create", {"name": "laptop", "publicKey": PUBLIC_KEY})
        vm = {"name": "box", "gpuModelId": "l40s", "gpuCount": 2, "sshKeyIds": [key["id"]]}
        made["box"] = (await owner.ok("POST", "/v1/orgs/{org}/vms/create", vm))["id"]
        made["probe"] = await running_pod(owner, name="probe", gpuModelId="rtx4090", retries=3)
        await happens(owner, made["probe"], "fail")
        await batches.run(owner, [batches.record(str(number)) for number in range(40)])
        await server.advance(DAY)
        await server.ok("POST", "/faults", {"operation": "POST /v1/pods", "effect": {"drop": "after"}, "count": 1})
        (node,) = [
            each["id"]
            for each in (await server.ok("GET", "/nodes"))["items"]
            if any(unit["workloadId"] == made["notebook"] for unit in each["units"])
        ]
        await server.ok("PATCH", f"/nodes/{node}", {"reporting": False})
        await server.advance(600)
    return made


@pytest.mark.parametrize("name", PICTURES)
async def test_a_picture_of_the_docs_is_taken(
    browser: Browser, server: Server, team: dict[str, str], name: str, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    picture = PICTURES[name]
    shown = DOCS / f"{name}.png"
    taken = shown if pytestconfig.getoption("--pictures") else tmp_path / shown.name
    async with console_of(browser, server.ready["consoleUrl"], **picture.context) as console:
        await console.open(picture.path.format(**team))
        await expect(console.page.locator("#live")).to_have_text("Live")
        await console.page.screenshot(path=taken)
    assert size_of(shown) == size_of(taken) == (picture.width, picture.height), "run `make pictures`"


async def test_the_docs_show_these_pictures_and_no_others() -> None:
    assert {path.stem for path in DOCS.glob("*.png")} == set(PICTURES)
    page = PAGE.read_text()
    assert [name for name in PICTURES if f"]({name}.png)" not in page] == []


def size_of(png: Path) -> tuple[int, int]:
    """Width and height, which a PNG has in its first chunk."""
    width, height = struct.unpack(">II", png.read_bytes()[16:24])
    return width, height
