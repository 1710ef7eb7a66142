"""`kubectl relay doctor`, as people run it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.support.manifests import SECRET, api_key_secret, cloud_account, gpu_pod, stalled
from tests.unit.client.scripted import Reply, scripted_server

if TYPE_CHECKING:
    from tests.support.kubectl import Ran
    from tests.support.workspace import Workspace


def _verdicts(told: Ran) -> dict[str, str]:
    return {item["check"]: item["verdict"] for item in json.loads(told.stdout)["items"]}


async def test_a_missing_assumed_operation_is_a_warning_and_a_refused_key_is_wrong(workspace: Workspace) -> None:
    await workspace.apply(gpu_pod())
    await workspace.becomes("GpuPod", "trainer")
    docs = f"--docs-url={workspace.cloud.management_url}/openapi.json"
    for options in ([], [docs]):
        healthy = await workspace.kubectl.relay("doctor", "-o", "json", *options)
        checks = dict.fromkeys(("account", "url", "clock", "key", "scopes", "webhook"), "ok")
        assert (healthy.exit_code, _verdicts(healthy)) == (0, checks | {"operations": "warning"})
        assert 'the cloud does not serve GET /v1/orgs/{orgId}/vms"' in healthy.stdout  # without --list-vms

    await workspace.kube.apply(api_key_secret("sk_of_nobody", SECRET))
    refused = await workspace.kubectl.relay("doctor", "-o", "json")
    assert (refused.exit_code, _verdicts(refused)["key"]) == (1, "wrong")
    table = await workspace.kubectl.relay("doctor")
    assert (table.exit_code, max(map(len, table.stdout.splitlines())) <= 80) == (1, True)
    assert "sk_of_nobody" not in table.stdout + table.stderr + refused.stdout + refused.stderr
    await workspace.kube.apply(api_key_secret(workspace.organization.api_key, SECRET))


async def test_a_server_that_only_the_account_names_is_never_called(workspace: Workspace) -> None:
    """A person who may write accounts, and read no Secret, names a server of their own."""
    async with scripted_server() as server:
        server.will(Reply(404, b"{}"))
        await workspace.apply(cloud_account(server.url, server.url, "theirs"))
        await workspace.becomes("CloudAccount", "theirs", lambda account: stalled(account) == "AccountNotAllowed")
        told = await workspace.kubectl.relay("doctor", "-o", "json")
        items = [item for item in json.loads(told.stdout)["items"] if item["account"].endswith("/theirs")]
        verdicts = {item["check"]: item["verdict"] for item in items}
        assert (verdicts["account"], verdicts["url"], verdicts["key"]) == ("wrong", "warning", "warning")
        await workspace.apply(gpu_pod(accountRef={"name": "theirs"}))
        planned = await workspace.kubectl.relay("plan", "gpod/trainer", "-o", "json")
        assert (planned.exit_code, "RELAY_ALLOWED_BASE_URLS" in planned.stdout) == (0, True), planned
        charged = await workspace.kubectl.relay("deposit", "theirs", "1000", "--yes")
        assert (charged.exit_code, "the key was not used" in charged.stderr) == (1, True)
        assert server.seen == []
        trusted = await workspace.kubectl.relay("doctor", f"--base-url={server.url}")
        assert [seen for seen in server.seen if "authorization" in seen.headers], trusted
