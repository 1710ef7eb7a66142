"""What has ended is remembered for a while of the cloud's clock, and leaves no row then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.localcloud.support import batches, clusters, deployments
from tests.localcloud.support.everything import PUBLIC_KEY
from tests.localcloud.support.inference import call
from tests.localcloud.support.workloads import DAY, UNTIL_RUNNING, act, new_pod, set_organization, stopped_pod

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.localcloud.support.server import Organization

    End = Callable[[Organization], Awaitable[str]]

import pytest


async def end_pod(organization: Organization) -> str:
    pod = (await new_pod(organization))["id"]
    await act(organization, pod, "terminate")
    return str(pod)


async def end_vm(organization: Organization) -> str:
    """One with a key on it and an offer of it, which go with it."""
    made = await organization.ok("POST", "/v1/orgs/{org}/ssh-keys/create", {"name": "key", "publicKey": PUBLIC_KEY})
    vm = (await organization.ok("POST", "/v1/orgs/{org}/vms/create", {"name": "vm"}))["id"]
    await organization.ok("POST", f"/v1/vms/{vm}/ssh-keys/attach", {"sshKeyId": made["id"]})
    other = await organization.server.organization()
    await organization.server.ok("POST", "/transfers", {"workloadId": vm, "toOrganizationId": other.id})
    await act(organization, vm, "terminate")
    return str(vm)


async def end_cluster(organization: Organization) -> str:
    cluster = (await clusters.create(organization))["id"]
    await clusters.act(organization, cluster, "terminate")
    return str(cluster)


async def end_file(organization: Organization) -> str:
    file = await batches.upload(organization, b"{}")
    assert (await call(organization, "DELETE", f"/v1/files/{file}")).status == 200
    return file


async def end_batch(organization: Organization) -> str:
    return str((await batches.run(organization, [batches.record("r")]))["id"])


async def end_key(organization: Organization) -> str:
    key = (await organization.ok("POST", "/v1/orgs/{org}/api-keys/create", {"name": "key"}))["id"]
    await organization.ok("DELETE", f"/v1/orgs/{{org}}/api-keys/{key}")
    return str(key)


async def end_token(organization: Organization) -> str:
    await set_organization(organization, provider=True)
    token = (await organization.ok("POST", "/v1/orgs/{org}/provider/tokens", {"name": "token"}))["id"]
    await organization.ok("DELETE", f"/v1/orgs/{{org}}/provider/tokens/{token}")
    return str(token)


async def traces(organization: Organization, ended: str) -> list[str]:
    """The tables that name it; e-mails, bills and the audit log tell of it for longer."""
    tables = (await organization.server.ok("GET", "/export"))["tables"]
    named = [name for name, rows in tables.items() if any(ended in map(str, row.values()) for row in rows)]
    return sorted(set(named) - {"audit", "outbox", "usage_records", "usage_totals", "inference_usage"})


@pytest.mark.parametrize(
    ("end", "kept", "tables"),
    [
        (end_pod, DAY, ["workloads"]),
        (end_vm, DAY, ["attached_ssh_keys", "transfers", "workloads"]),
        (end_cluster, DAY, ["clusters"]),
        (end_file, DAY, ["files"]),
        (end_batch, 30 * DAY, ["batches"]),
        (end_key, DAY, ["api_keys"]),
        (end_token, DAY, ["provisioning_tokens"]),
    ],
    ids=["pod", "vm", "cluster", "file", "batch", "key", "token"],
)
async def test_what_has_ended_is_remembered_for_a_while_and_then_forgotten(
    organization: Organization, end: End, kept: int, tables: list[str]
) -> None:
    await organization.server.ok("POST", "/reset")
    fresh = await organization.server.organization()
    ended = await end(fresh)
    assert await traces(fresh, ended) == tables
    await organization.server.advance(kept - 3601)
    assert await traces(fresh, ended) == tables
    await organization.server.advance(3601)
    assert await traces(fresh, ended) == []


async def test_what_is_stopped_is_never_forgotten(organization: Organization) -> None:
    pod = await stopped_pod(organization)
    await end_pod(organization)
    await organization.server.advance(60 * DAY)
    assert await organization.ok("GET", f"/v1/vms/{pod}")


async def test_replicas_and_deployments_leave_no_row_when_they_end(organization: Organization) -> None:
    cluster = await clusters.running(organization, replicaCount=2)
    deployment = await deployments.running(organization, acknowledgeLaneJoin=True)
    await clusters.act(organization, cluster, "scale", {"replicaCount": 1})
    await organization.ok("DELETE", f"{deployments.DEPLOYMENTS}/{deployment}")
    await organization.server.advance(UNTIL_RUNNING)
    tables = (await organization.server.ok("GET", "/export"))["tables"]
    assert len([row for row in tables["replicas"] if row["cluster_id"] == cluster]) == 1
    assert await traces(organization, deployment) == []


def copies(row: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """So many rows like this one."""
    return [
        {**row, "sequence": row["sequence"] + n, "id": f"{row['id']}{n}", "label": f"{row['label']}{n}"}
        for n in range(1, count + 1)
    ]


async def test_very_many_that_ended_at_once_are_all_forgotten(organization: Organization) -> None:
    pod = await end_pod(organization)
    document = await organization.server.ok("GET", "/export")
    rows = document["tables"]["workloads"]
    rows += copies(next(row for row in rows if row["id"] == pod), 1_200)
    await organization.server.ok("POST", "/import", document)
    await organization.server.advance(DAY + 60)
    tables = (await organization.server.ok("GET", "/export"))["tables"]
    assert [row for row in tables["workloads"] if row["terminated_at"] is not None] == []
    assert [item for item in tables["due"] if item["subject"] == "workloads"] == []
