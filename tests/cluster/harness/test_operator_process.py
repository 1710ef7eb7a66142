"""A scenario's own operator: killed, started again, and it goes on where it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.manifests import gpu_pod

if TYPE_CHECKING:
    from tests.conftest import StartOperator
    from tests.support.workspace import Workspace


async def test_a_killed_operator_takes_up_what_it_left(
    unattended_workspace: Workspace, start_operator: StartOperator
) -> None:
    operator = await start_operator(unattended_workspace)
    await unattended_workspace.apply(gpu_pod("first"))
    await unattended_workspace.becomes("GpuPod", "first")
    await operator.kill()
    await unattended_workspace.apply(gpu_pod("second"))
    await operator.start()
    await unattended_workspace.becomes("GpuPod", "second")
    assert len(await unattended_workspace.organization.billed()) == 2
