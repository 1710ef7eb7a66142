"""relay-operator as a separate process, with the rights that the chart grants."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp

from tests.support.controlplane import Ready
from tests.support.process import Process, free_port

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tests.support.forked import Program

_WHO = {"LOGNAME", "USER", "LNAME", "USERNAME"}
_COMMAND = Path(sys.executable).with_name("relay-operator")
_SAMPLE = re.compile(r"^(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Operator:
    """A `relay-operator run` process with its own ports; it can be killed and restarted.

    `settings` are RELAY_ variables in lower case, without the prefix: `workers="4"`. `under` is a command that wraps
    it. `program` makes frequent starts cheap: see Process.
    """

    def __init__(
        self,
        folder: Path,
        kubeconfig: Path,
        namespace: str,
        allowed_base_urls: Iterable[str],
        settings: Mapping[str, str] | None = None,
        under: Sequence[str] = (),
        program: Program | None = None,
    ) -> None:
        self.metrics_url = f"http://127.0.0.1:{free_port()}"
        self.webhook_url = f"http://127.0.0.1:{free_port()}"
        self.log = folder / "operator.log"
        chosen = {
            "namespace": namespace,
            "allowed_base_urls": ",".join(allowed_base_urls),
            "webhook_listen": self.webhook_url.removeprefix("http://"),
            "webhook_public_url": self.webhook_url,
            # No catalog: it uses the oldest account, whose requests and writes a test may count.
            "catalog_account": "nobody/nobody",
            "metrics_listen": self.metrics_url.removeprefix("http://"),
            **(settings or {}),
        }
        # The caller's RELAY_ and KUBE variables must not leak in, nor the user's name, which a container lacks.
        env = {name: value for name, value in os.environ.items() if not name.startswith(("RELAY_", "KUBE"))}
        env = {name: value for name, value in env.items() if name not in _WHO}
        env |= {f"RELAY_{name.upper()}": value for name, value in chosen.items()}
        env["KUBECONFIG"] = str(kubeconfig)
        self.process = Process(
            "relay-operator",
            [*under, str(_COMMAND), "run"],
            self.log,
            ready=Ready(f"{self.metrics_url}/readyz"),
            env=env,
            program=program,
        )

    async def start(self) -> None:
        """Starts the operator and waits until /readyz answers 200; raises StartError with the end of its log."""
        await self.process.start()

    async def kill(self) -> None:
        """Sends SIGKILL, as a node failure would, and waits for the end."""
        await self.process.kill()

    async def stop(self, within: float = 30.0) -> int | None:
        """Sends SIGTERM, as Kubernetes does, and after `within` seconds SIGKILL; returns the exit code."""
        return await self.process.stop(within)

    async def restart(self) -> None:
        """Stops the operator with SIGTERM and starts it again on the same ports."""
        await self.stop()
        await self.start()

    def log_lines(self) -> list[dict[str, Any]]:
        """Returns its log so far, decoded; lines other than JSON objects, such as a traceback, as `{"raw": line}`."""
        return [_decoded(line) for line in self.log.read_text(errors="replace").splitlines()]

    async def metric(self, name: str, **labels: str) -> float:
        """Returns the sum of the samples with that name and at least these labels; 0 if there is none."""
        async with aiohttp.ClientSession() as session, session.get(f"{self.metrics_url}/metrics") as reply:
            text = await reply.text()
        samples = (found for line in text.splitlines() if (found := _SAMPLE.match(line)))
        wanted = labels.items()
        return sum(
            float(one["value"])
            for one in samples
            if one["name"] == name and wanted <= dict(_LABEL.findall(one["labels"] or "")).items()
        )


def _decoded(line: str) -> dict[str, Any]:
    try:
        decoded = json.loads(line)
    except ValueError:
        return {"raw": line}
    return decoded if isinstance(decoded, dict) else {"raw": line}
