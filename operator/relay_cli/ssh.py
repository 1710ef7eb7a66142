"""`kubectl relay ssh`: logs in to a workload through the cloud's SSH gateway."""

import os
import shutil
from collections.abc import Sequence
from typing import Annotated

import typer

from relay_cli import accounts, objects
from relay_cli.failures import Failure, Status
from relay_cli.kubectl import Kubectl
from relay_cli.objects import MACHINES, CloudObject, Reference
from relay_operator.api.cloudaccount import AnyAccount

Remote = Annotated[
    list[str] | None, typer.Argument(metavar="COMMAND", help="Run this instead of a shell; write -- before it.")
]


async def ssh(kubectl: Kubectl, reference: Reference, remote: Remote = None) -> None:
    """Open a shell in a pod or VM, or run a command there; your key must be registered with the organization."""
    obj = await objects.one(kubectl, reference)
    cloud_id = running_id(obj)
    command = arguments(await accounts.of(kubectl, obj), cloud_id, remote or ())
    program = shutil.which("ssh")
    if program is None:
        raise Failure("ssh is not on PATH: install OpenSSH's client")
    os.execv(program, command)  # noqa: S606 - without a shell: ssh takes over the terminal


def running_id(obj: CloudObject) -> str:
    """The gateway's id for the object. Raises Failure if it has no shell, or does not run. Pure."""
    if obj.kind not in MACHINES:
        raise Failure(f"{obj.key} has no shell; these kinds do: {', '.join(MACHINES)}", Status.MISUSED)
    if obj.status.id is None or obj.status.state != "running":
        raise Failure(f"{obj.key} is not running (state: {obj.status.state or 'none yet'})")
    return obj.status.id


def arguments(account: AnyAccount, cloud_id: str, remote: Sequence[str]) -> list[str]:
    """The command line of ssh; the gateway's user name is the workload's id. Raises Failure. Pure."""
    if account.spec.ssh_gateway is None:
        raise Failure(f"{account.key} has no spec.sshGateway: set it to host:port of the cloud's SSH gateway")
    host, _, port = account.spec.ssh_gateway.rpartition(":")
    return ["ssh", "-p", port, "-l", cloud_id, "--", host.strip("[]"), *remote]
