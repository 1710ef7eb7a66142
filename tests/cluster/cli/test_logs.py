"""`kubectl relay logs`, as people run it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.manifests import gpu_vm

if TYPE_CHECKING:
    from tests.support.workspace import Workspace


async def test_the_log_of_a_vm_and_a_sentence_where_the_cloud_serves_none(workspace: Workspace) -> None:
    await workspace.apply(gpu_vm(cloudInit="#!/bin/sh\necho hello"))
    await workspace.becomes("GpuVm", "box")
    await workspace.becomes("CloudAccount", "default")
    told = await workspace.kubectl.relay("logs", "gvm/box")
    assert (told.exit_code, " boot: " in told.stdout, " cloud-init: " in told.stdout) == (0, True, True)

    only = {"organizationId": workspace.organization.id}
    await workspace.cloud.control.fault("GET /v1/vms/{id}/logs", {"status": 404, "body": {"error": "?"}}, **only)
    none = await workspace.kubectl.relay("logs", "gvm/box")
    assert (none.exit_code, none.stdout) == (1, "")
    assert "the cloud shows no log of GpuVm/" in none.stderr
