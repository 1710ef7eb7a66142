"""`kubectl relay deposit`, as people run it."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.support.workspace import Workspace

DEPOSIT = "POST /v1/orgs/{orgId}/billing/deposit"


async def _charges(workspace: Workspace) -> list[Any]:
    told = await workspace.cloud.control.call("GET", "/payments", organizationId=workspace.organization.id)
    items: list[Any] = told["items"]
    return items


async def test_it_asks_first_and_an_unanswered_one_is_told_by_its_key(workspace: Workspace) -> None:
    control, organization, relay = workspace.cloud.control, workspace.organization, workspace.kubectl.relay
    await control.call("POST", f"/orgs/{organization.id}/cards")
    await workspace.becomes("CloudAccount", "default")

    declined = await relay("deposit", "default", "5000", stdin="n\n")
    assert (declined.exit_code, declined.stdout) == (1, "")
    assert declined.stderr.endswith("kubectl relay: declined: nothing was charged\n")
    assert await _charges(workspace) == []

    await control.fault(DEPOSIT, {"drop": "after"}, count=1, organizationId=organization.id)
    url = workspace.cloud.management_url
    unanswered = await relay("deposit", "default", "5000", f"--base-url={url}", stdin="y\n")
    assert (unanswered.exit_code, unanswered.stdout) == (1, "")
    assert "the card may have been charged" in unanswered.stderr
    found = re.search(
        r"kubectl relay deposit (default 5000 --idempotency-key \w+ .*)$", unanswered.stderr, re.MULTILINE
    )
    assert found is not None
    command = shlex.split(found[1])
    assert command[4:] == [f"--namespace={workspace.namespace}", f"--base-url={url}"]
    assert len(await _charges(workspace)) == 1

    await control.fault(DEPOSIT, {"status": 429, "body": {"error": "slowly"}}, count=1, organizationId=organization.id)
    refused = await relay("deposit", "--yes", *command)
    assert "this attempt charged nothing" in refused.stderr
    assert found[0] in refused.stderr

    again = await relay("deposit", "--yes", *command)
    (charge,) = await _charges(workspace)
    assert (again.exit_code, again.stdout.startswith(f"$50.00 ({charge['chargeId']}) ")) == (0, True)
    assert organization.api_key not in "".join((declined.stderr, unanswered.stderr, again.stdout, again.stderr))
