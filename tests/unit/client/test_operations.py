"""The table of operations, against section 4 as it reads."""

import re

import pytest

from relay_client import OPERATIONS, AnyOperation, Api, operations
from relay_wire.base import Received, Sent

DOCUMENTED = """
GET /v1/me
GET /v1/whoami
GET /v1/orgs/{orgId}/billing/balance
POST /v1/orgs/{orgId}/billing/deposit
GET /v1/orgs/{orgId}/billing/auto-recharge
PUT /v1/orgs/{orgId}/billing/auto-recharge
GET /v1/gpu-models
GET /v1/gpu-availability
GET /v1/pricing
GET /v1/locations
GET /v1/vm-templates
POST /v1/orgs/{orgId}/vms/create
GET /v1/vms/{id}
POST /v1/vms/{id}/stop
POST /v1/vms/{id}/restart
POST /v1/vms/{id}/terminate
POST /v1/vms/{id}/visibility
POST /v1/pods
GET /v1/pods/capacity
GET /v1/orgs/{orgId}/api-keys
POST /v1/orgs/{orgId}/api-keys/create
DELETE /v1/orgs/{orgId}/api-keys/{id}
GET /v1/orgs/{orgId}
PATCH /v1/orgs/{orgId}
POST /v1/orgs/{orgId}/members/add
GET /v1/orgs/{orgId}/members
PATCH /v1/orgs/{orgId}/members/{userId}
DELETE /v1/orgs/{orgId}/members/{userId}
POST /v1/orgs/{orgId}/ssh-keys/create
POST /v1/orgs/{orgId}/clusters/create
GET /v1/orgs/{orgId}/clusters
GET /v1/clusters/{id}
GET /v1/clusters/{id}/detail
POST /v1/clusters/{id}/scale
POST /v1/clusters/{id}/restart
POST /v1/clusters/{id}/stop
POST /v1/clusters/{id}/terminate
POST /v1/orgs/{orgId}/webhooks/create
POST /v1/orgs/{orgId}/runner-pools
POST /v1/orgs/{orgId}/registry-credentials/create
GET /v1/orgs/{orgId}/registry-credentials
DELETE /v1/orgs/{orgId}/registry-credentials/{id}
POST /v1/orgs/{orgId}/provider/tokens
GET /v1/orgs/{orgId}/provider/tokens
DELETE /v1/orgs/{orgId}/provider/tokens/{id}
GET /v1/orgs/{orgId}/provider/nodes
PATCH /v1/orgs/{orgId}/provider/nodes/{nodeId}
GET /v1/orgs/{orgId}/provider/earnings
"""
ASSUMED = """
GET /v1/orgs/{orgId}/billing/usage
GET /v1/orgs/{orgId}/vms
GET /v1/orgs/{orgId}/billing/usage/daily
GET /v1/vms/{id}/logs
GET /v1/orgs/{orgId}/ssh-keys
POST /v1/vms/{id}/ssh-keys/attach
DELETE /v1/orgs/{orgId}/ssh-keys/{id}
POST /v1/vms/{id}/snapshots/create
GET /v1/vms/{id}/snapshots
DELETE /v1/vms/{id}/snapshots/{snapshotId}
GET /v1/orgs/{orgId}/runner-pools
DELETE /v1/orgs/{orgId}/runner-pools/{id}
POST /v1/inference/models/{modelId}/backends
GET /v1/inference/models/{modelId}/backends
GET /v1/inference/models/{modelId}/backends/{id}
PATCH /v1/inference/models/{modelId}/backends/{id}
DELETE /v1/inference/models/{modelId}/backends/{id}
POST /v1/orgs/{orgId}/provider/nodes/{nodeId}/reservations
GET /v1/orgs/{orgId}/provider/nodes/{nodeId}/reservations
POST /v1/orgs/{orgId}/provider/nodes/{nodeId}/reservations/{id}/release
POST /v1/orgs/{orgId}/provider/nodes/{nodeId}/reservations/{id}/reclaim
DELETE /v1/orgs/{orgId}/provider/nodes/{nodeId}/reservations/{id}
POST /v1/serving/deployments
GET /v1/serving/deployments
GET /v1/serving/deployments/{id}
PATCH /v1/serving/deployments/{id}
DELETE /v1/serving/deployments/{id}
GET /v1/orgs/{orgId}/webhooks
DELETE /v1/orgs/{orgId}/webhooks/{id}
POST /v1/orgs/{orgId}/webhooks/{id}/toggle
POST /v1/orgs/{orgId}/webhooks/{id}/regenerate-secret
GET /v1/orgs/{orgId}/webhooks/{id}/deliveries
POST /v1/files
GET /v1/files
GET /v1/files/{id}
GET /v1/files/{id}/content
DELETE /v1/files/{id}
POST /v1/batches
GET /v1/batches
GET /v1/batches/{id}
POST /v1/batches/{id}/cancel
"""


def routes(*, assumed: bool) -> set[str]:
    return {f"{row.method} {row.path}" for row in OPERATIONS if row.assumed is assumed}


def test_the_documented_operations_are_those_of_the_specification() -> None:
    assert routes(assumed=False) == set(DOCUMENTED.split("\n")) - {""}


def test_what_the_specification_does_not_show_is_marked() -> None:
    assert routes(assumed=True) == set(ASSUMED.split("\n")) - {""}


def test_every_row_is_in_the_table_once_under_its_own_name() -> None:
    rows = {name: row for name, row in vars(operations).items() if isinstance(row, operations.Operation)}
    assert sorted(rows.values(), key=id) == sorted(OPERATIONS, key=id)
    assert {name.lower() for name in rows} == {row.name for row in OPERATIONS}


@pytest.mark.parametrize("row", OPERATIONS, ids=[row.name for row in OPERATIONS])
def test_a_row_makes_sense(row: AnyOperation) -> None:
    assert row.body is operations.NOTHING or issubclass(row.body, Sent)
    assert row.result in {operations.NOTHING, str} or issubclass(row.result, Received)
    assert re.fullmatch(r"(/[a-z0-9-]+|/\{(orgId|id|userId|snapshotId|nodeId|modelId)\})+", row.path)
    assert (row.api is Api.INFERENCE) is bool(re.match(r"/v1/(files|batches)\b", row.path))
    assert row.repeatable or row.method == "POST"
    assert row.priority is bool(
        re.search(r"/(stop|terminate|cancel)$|^DELETE .*/(runner-pools|deployments)/", f"{row.method} {row.path}")
    )


def test_nothing_that_makes_or_restarts_something_is_repeated_in_place() -> None:
    assert {row.name for row in OPERATIONS if not row.repeatable} == {
        "create_pod",
        "create_vm",
        "create_cluster",
        "create_api_key",
        "add_member",
        "create_ssh_key",
        "create_registry_credential",
        "create_snapshot",
        "create_runner_pool",
        "create_provisioning_token",
        "create_backend",
        "create_reservation",
        "create_deposit",
        "create_deployment",
        "create_webhook",
        "upload_file",
        "create_batch",
        "cancel_batch",
        "stop_vm",
        "stop_cluster",
        "restart_vm",
        "restart_cluster",
        "toggle_webhook",
        "regenerate_webhook_secret",
    }
