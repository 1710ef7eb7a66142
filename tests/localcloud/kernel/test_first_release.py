"""The state directory of the first release opens, answers as that release answered, and goes on.

`upgrades/first_release` was written by it: `answers.json` is what it answered in the end.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.localcloud.support.deployments import answered_by
from tests.localcloud.support.server import Organization, request

if TYPE_CHECKING:
    from tests.localcloud.conftest import StartServer

FIRST = Path(__file__).parent / "upgrades" / "first_release"
ANSWERS: dict[str, Any] = json.loads((FIRST / "answers.json").read_text())
DEPLOYING = "/v1/vms/pod_d230be3496a7e5d32282"
AT_THE_URL = {"endpointUrl"}
"""Names the port of the gateway that answers."""
SINCE = {"workloads"}
"""Fields that the first release did not have: of a provider's node."""


BY_THE_SECOND = {"hours", "usageHours", "cents"}
"""That release counted whole seconds of the clock: a line of usage is some microseconds, or a cent, off."""


@pytest.fixture
def opened(start_server: StartServer, tmp_path: Path) -> Organization:
    """The organization of that release's state, in this release's cloud."""
    folder = tmp_path / "state"
    folder.mkdir()
    shutil.copy(FIRST / "secrets.key", folder)
    shutil.copytree(FIRST / "files", folder / "files")
    with closing(sqlite3.connect(folder / "state.db")) as state:
        state.executescript((FIRST / "state.sql").read_text())
    server = start_server("--state", str(folder))
    return Organization(server, ANSWERS["organizationId"], ANSWERS["apiKey"], "", "")


async def test_everything_in_it_is_answered_as_before(opened: Organization) -> None:
    assert await opened.server.ok("GET", "/clock") == ANSWERS["clock"]
    answered = {path: _bare(await opened.ok("GET", path)) for path in ANSWERS["management"]}
    assert answered == {path: _bare(answer) for path, answer in ANSWERS["management"].items()}
    for path, answer in ANSWERS["inference"].items():
        reply = await request("GET", opened.server.ready["inferenceUrl"] + path, key=opened.api_key)
        assert reply.body == answer, path


async def test_its_deployment_of_a_built_in_model_answers_its_own_organization_alone(opened: Organization) -> None:
    deployment = (await opened.ok("GET", "/v1/serving/deployments"))["items"][0]["id"]
    await opened.ok("PATCH", f"/v1/serving/deployments/{deployment}", {"backendWeight": 1})
    assert await answered_by(opened) == deployment
    assert await answered_by(await opened.server.organization()) is None


async def test_its_settings_are_kept(opened: Organization) -> None:
    settings = await opened.server.ok("PATCH", "/settings", {})
    assert {name: settings[name] for name in ANSWERS["settings"]} == ANSWERS["settings"]


async def test_what_was_due_in_it_happens(opened: Organization) -> None:
    assert (await opened.ok("GET", DEPLOYING))["status"] == "deploying"
    await opened.server.advance(10)
    assert (await opened.ok("GET", DEPLOYING))["status"] == "running"
    before = await opened.ok("GET", "/v1/orgs/{org}/billing/balance")
    await opened.server.advance(3600)
    after = await opened.ok("GET", "/v1/orgs/{org}/billing/balance")
    burn = (await opened.ok("GET", "/v1/orgs/{org}/billing/usage"))["burnPerHourCents"]
    assert after["accruedUsageCents"] - before["accruedUsageCents"] in (burn, burn + 1)
    assert "Traceback" not in opened.server.log


def _bare(answer: Any) -> Any:
    """The answer without what is new, depends on the ports of its server, or on this very read."""
    unlike = AT_THE_URL | SINCE | BY_THE_SECOND | {"lastUsedAt"}
    if isinstance(answer, dict):
        kept = {name: _bare(value) for name, value in answer.items() if name not in unlike}
        if "breakdown" in kept:  # that release had a line for each resource, not for each run
            kept["breakdown"] = [line for line, _ in groupby(kept["breakdown"])]
        return kept
    return [_bare(item) for item in answer] if isinstance(answer, list) else answer
