"""A kubectl that does what a test says, and a cloud."""

import json
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from relay_operator.api.meta import API_VERSION
from tests.unit.client.scripted import Reply, ScriptedServer, scripted_server

Scripted = Callable[[str], None]
KEY = "or_key_0123456789"
WHO = {"principalType": "api_key", "organizationId": "org_1", "organizationName": "Acme", "scopes": []}


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scripted:
    """Puts a kubectl that runs these lines of shell in `tmp_path` first on PATH."""
    program = tmp_path / "kubectl"
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    def runs(lines: str) -> None:
        program.write_text(f"#!/bin/sh\ncd {tmp_path}\n{lines}\n")
        program.chmod(0o755)

    return runs


@pytest_asyncio.fixture
async def cloud(kubectl: Scripted, tmp_path: Path) -> AsyncIterator[ScriptedServer]:
    """The cloud of the account `default`, which first says whose key it is; kubectl also knows the VM `box`."""
    vm = {"kind": "GpuVm", "metadata": {"name": "box", "namespace": "ml"}, "spec": {}, "status": {"id": "vm_1"}}
    async with scripted_server() as server:
        spec = {"apiKeySecretRef": {"name": "key", "key": "api-key"}, "baseUrl": server.url}
        account = {"kind": "CloudAccount", "metadata": {"name": "default", "namespace": "ml"}, "spec": spec}
        secret = {"data": {"api-key": b64encode(KEY.encode()).decode()}}
        answers: dict[str, Any] = {"secret": secret, "cloudaccounts": account, "gvm": vm | {"apiVersion": API_VERSION}}
        for name, answer in answers.items():
            (tmp_path / name).write_text(json.dumps(answer))
        kubectl("\n".join(f'case "$*" in *"get {name}"*) cat {name};; esac' for name in answers))
        server.will(Reply(200, json.dumps(WHO).encode()))
        yield server
