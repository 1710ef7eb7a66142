"""`kubectl relay ssh`, as people run it; what ssh would be told is told by a program of the same name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.manifests import gpu_pod

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.workspace import Workspace


async def test_ssh_takes_over_the_terminal_at_the_accounts_gateway(workspace: Workspace, tmp_path: Path) -> None:
    await workspace.apply(gpu_pod())
    cloud_id = (await workspace.becomes("GpuPod", "trainer"))["status"]["id"]
    nowhere = await workspace.kubectl.relay("ssh", "gpod/trainer")
    assert (nowhere.exit_code, "has no spec.sshGateway" in nowhere.stderr) == (1, True)

    await workspace.kube.patch("CloudAccount", "default", {"spec": {"sshGateway": "ssh.example.com:8403"}})
    program = tmp_path / "ssh"
    program.write_text('#!/bin/sh\nread said\necho "$said: $@"\n')
    program.chmod(0o755)
    command = f"PATH={tmp_path}:$PATH kubectl relay ssh gpod/trainer --namespace {workspace.namespace} -- nvidia-smi -L"
    told = await workspace.kubectl.shell(f"echo typed | {command}")
    assert told == f"typed: -p 8403 -l {cloud_id} -- ssh.example.com nvidia-smi -L\n"
