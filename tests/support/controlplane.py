"""A real control plane on this machine: etcd, kube-apiserver and kube-controller-manager, one process each.

`python -m tests.support.controlplane up|down` starts and ends one that outlives the command.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import yaml

from tests.support.audit import POLICY, AuditLog, Write
from tests.support.binaries import ServerBinaries, server_binaries
from tests.support.certificates import write_serving_certificate, write_signing_key
from tests.support.kube import Kube, KubeError
from tests.support.process import Process, StartError, free_port
from tests.support.servers import (
    apiserver_command,
    controller_manager_command,
    etcd_command,
    write_kubeconfig,
    write_private,
)
from tests.support.toolchain import BuildError, cache_folder

_TOKEN_SECONDS = 24 * 3600
# Garbage collection takes a tenth of the API server's CPU, more while it starts; less of it costs 170 MB of memory.
# Several control planes share the cores of a test run: threads that wake each other take a sixth of a request's CPU.
_OF_GO = {"GOGC": "400", "GOMAXPROCS": "1"}

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


@dataclass(frozen=True)
class Cluster:
    """A cluster, an administrator's kubeconfig for it, and a folder for further kubeconfigs."""

    kubeconfig: Path
    folder: Path

    async def service_account_kubeconfig(self, namespace: str, name: str) -> Path:
        """Writes and returns a kubeconfig of a ServiceAccount, with a token from the API server (24 hours)."""
        async with Kube(self.kubeconfig) as kube:
            path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
            reply = await kube.call("POST", path, {"spec": {"expirationSeconds": _TOKEN_SECONDS}})
        config = yaml.safe_load(self.kubeconfig.read_text())
        context = next(one["context"] for one in config["contexts"] if one["name"] == config["current-context"])
        cluster = next(one["cluster"] for one in config["clusters"] if one["name"] == context["cluster"])
        path_of_config = self.folder / f"{namespace}.{name}.kubeconfig"
        write_kubeconfig(path_of_config, cluster, reply["status"]["token"], namespace)
        return path_of_config


@dataclass(frozen=True)
class ControlPlane(Cluster):
    """The three servers; each can be killed and restarted alone, on the same port with the same data."""

    url: str
    etcd: Process
    apiserver: Process
    controller_manager: Process
    audit: AuditLog

    @classmethod
    async def start(cls, folder: Path, binaries: ServerBinaries, *, outlives_parent: bool = False) -> ControlPlane:
        """Starts all three in a folder of their own; raises StartError with the end of the failed one's log."""
        plane = cls._prepared(folder, binaries, outlives_parent=outlives_parent)
        try:
            await plane.etcd.start()
            await plane.apiserver.start()
            await plane.controller_manager.start()
        except BaseException:
            await plane.stop()
            raise
        return plane

    async def stop(self) -> None:
        """Ends all three for good and removes etcd's data, 64 MB and more; logs stay."""
        for process in (self.controller_manager, self.apiserver, self.etcd):
            await process.kill()
        shutil.rmtree(self.folder / "etcd", ignore_errors=True)

    def end_now(self) -> None:
        """Ends all three from code that cannot await; etcd's data stay."""
        for process in (self.controller_manager, self.apiserver, self.etcd):
            process.end_now()

    def writes_by(self, user: str, after: int = 0) -> list[Write]:
        """Returns the writes of a user after a position of `audit`, as the API server logged them."""
        return self.audit.writes_by(user, after)

    @classmethod
    def _prepared(cls, folder: Path, binaries: ServerBinaries, *, outlives_parent: bool) -> ControlPlane:
        folder.mkdir(parents=True, exist_ok=True)
        write_serving_certificate(folder)
        write_signing_key(folder)
        token = secrets.token_urlsafe(24)
        etcd_url, url = f"http://127.0.0.1:{free_port()}", f"https://127.0.0.1:{free_port()}"
        kubeconfig = folder / "kubeconfig"
        authority = base64.b64encode((folder / "ca.crt").read_bytes()).decode()
        write_kubeconfig(kubeconfig, {"server": url, "certificate-authority-data": authority}, token, "default")
        write_private(folder / "tokens.csv", f'{token},admin,admin,"system:masters"\n')
        (folder / "audit-policy.yaml").write_text(POLICY)

        def process(name: str, argv: list[str], ready: Callable[[], Awaitable[bool]]) -> Process:
            log = folder / f"{name}.log"
            return Process(name, argv, log, ready=ready, env=os.environ | _OF_GO, outlives_parent=outlives_parent)

        return cls(
            kubeconfig=kubeconfig,
            folder=folder,
            url=url,
            etcd=process("etcd", etcd_command(binaries, folder, etcd_url), Ready(f"{etcd_url}/health")),
            apiserver=process(
                "kube-apiserver", apiserver_command(binaries, folder, etcd_url, url), Ready(f"{url}/readyz", token)
            ),
            controller_manager=process(
                "kube-controller-manager", controller_manager_command(binaries, folder), _Controllers(kubeconfig)
            ),
            audit=AuditLog(folder / "audit.log"),
        )


class Ready:
    """Checks whether a URL answers 200 within 2 seconds. The certificate is not verified: the address is local."""

    def __init__(self, url: str, token: str = "") -> None:
        self.url = url
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    async def __call__(self) -> bool:
        try:
            timeout = aiohttp.ClientTimeout(total=2)
            async with (
                aiohttp.ClientSession(timeout=timeout, headers=self.headers) as session,
                session.get(self.url, ssl=False) as reply,
            ):
                return reply.status == 200
        except (aiohttp.ClientError, TimeoutError):
            return False


class _Controllers:
    """Checks whether the controllers work: the namespace `default` has its ServiceAccount."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig

    async def __call__(self) -> bool:
        try:
            async with Kube(self.kubeconfig) as kube:
                return await kube.find("ServiceAccount", "default", "default") is not None
        except (aiohttp.ClientError, KubeError):
            return False


def _record() -> Path:
    return cache_folder() / "controlplane.json"


async def _up() -> str:
    """Starts a control plane that outlives this process, unless one is up; returns the path of its kubeconfig."""
    recorded = _recorded()
    if recorded and all(_is_ours(pid, recorded["folder"]) for pid in recorded["pids"]):
        return str(Path(recorded["folder"], "kubeconfig"))
    _down()
    folder = Path(tempfile.mkdtemp(prefix="relay-controlplane-"))
    plane = await ControlPlane.start(folder, server_binaries(), outlives_parent=True)
    pids = [process.pid for process in (plane.controller_manager, plane.apiserver, plane.etcd)]
    _record().write_text(json.dumps({"folder": str(folder), "pids": pids}))
    return str(plane.kubeconfig)


def _down() -> str:
    recorded = _recorded()
    if not recorded:
        return "no control plane is up"
    for pid in recorded["pids"]:
        if _is_ours(pid, recorded["folder"]):
            os.kill(pid, signal.SIGKILL)
    shutil.rmtree(recorded["folder"], ignore_errors=True)
    _record().unlink()
    return "the control plane has ended"


def _recorded() -> dict[str, Any] | None:
    try:
        recorded: dict[str, Any] = json.loads(_record().read_text())
    except FileNotFoundError:
        return None
    return recorded


def _is_ours(pid: int, folder: str) -> bool:
    """Whether the process is the server that was started in the folder, not a later one with the same id."""
    said = subprocess.run(
        ["ps", "-o", "args=", "-p", str(pid)], capture_output=True, text=True, timeout=10, check=False
    )
    return folder in said.stdout


def main() -> int:
    """`up` starts a control plane and prints the path of its kubeconfig; `down` ends it."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.controlplane", description=main.__doc__)
    parser.add_argument("command", choices=["up", "down"])
    try:
        answer = asyncio.run(_up()) if parser.parse_args().command == "up" else _down()
    except (BuildError, StartError) as failed:
        sys.stderr.write(f"{failed}\n")
        return 1
    sys.stdout.write(f"{answer}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
