"""`kubectl relay ssh`, as people run it; what ssh is told is told by a program of the same name, or carried out."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

import asyncssh
import pytest

from tests.support.manifests import gpu_pod

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.workspace import Workspace


PYTHONS = """#!{python}
import asyncio, asyncssh, sys

async def main():
    _, port, _, user, _, host, *command = sys.argv[1:]
    options = dict(username=user, client_keys=[{key!r}], known_hosts=None, config=None, agent_path=None)
    async with asyncssh.connect(host, int(port), **options) as connection:
        done = await connection.run(" ".join(command))
    sys.stderr.write(done.stderr)
    return done.exit_status

sys.exit(asyncio.run(main()))
"""
OPENSSHS = """#!/bin/sh
exec {ssh} -F none -o IdentitiesOnly=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -i {key} "$@"
"""
CLIENTS = (PYTHONS, *((OPENSSHS,) if shutil.which("ssh") else ()))
"""What a person has as `ssh`: OpenSSH's if this machine has it, and one in Python in any case."""


@pytest.mark.parametrize("client", CLIENTS)
async def test_it_leads_into_what_runs_in_a_local_cloud(client: str, workspace: Workspace, tmp_path: Path) -> None:
    key, program = tmp_path / "id_ed25519", tmp_path / "ssh"
    own = asyncssh.generate_private_key("ssh-ed25519")
    own.write_private_key(key)
    key.chmod(0o600)
    program.write_text(client.format(python=sys.executable, ssh=shutil.which("ssh"), key=str(key)))
    program.chmod(0o755)
    gateway = workspace.cloud.announced["sshUrl"].removeprefix("ssh://")
    await workspace.kube.patch("CloudAccount", "default", {"spec": {"sshGateway": gateway}})
    public = own.export_public_key().decode().strip()
    await workspace.apply(
        {
            "apiVersion": "gpurelay.dev/v1alpha1",
            "kind": "SshKey",
            "metadata": {"name": "ada"},
            "spec": {"publicKey": public},
        }
    )
    await workspace.apply(gpu_pod())
    await workspace.becomes("SshKey", "ada")
    cloud_id = (await workspace.becomes("GpuPod", "trainer"))["status"]["id"]
    relay = f"PATH={tmp_path}:$PATH kubectl relay ssh gpod/trainer --namespace {workspace.namespace}"
    told = await workspace.kubectl.shell(f"{relay} -- nvidia-smi -L 2>&1 || echo status $?")
    assert f"{cloud_id} is simulated" in told
    assert told.endswith("status 126\n")


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
