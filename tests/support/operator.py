"""relay-operator as a process of its own, under the rights that the chart gives it."""

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
    """A `relay-operator run` process with ports of its own; it can be killed and started again.

    `settings` are RELAY_ variables without the prefix, in lower case: `workers="4"`. `under` is a command that runs it.
    `program` makes starts cheap for who starts it often: see Process.
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
            # Whose requests and writes are counted is not to depend on whose account is the oldest: no catalog.
            "catalog_account": "nobody/nobody",
            "metrics_listen": self.metrics_url.removeprefix("http://"),
            **(settings or {}),
        }
        # Nothing of the caller's own RELAY_ or KUBECONFIG may leak in, nor the caller's name, which a container lacks.
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
        """Starts it and returns when /readyz answers 200; raises StartError with the end of its log."""
        await self.process.start()

    async def kill(self) -> None:
        """SIGKILL: what a node failure does."""
        await self.process.kill()

    async def stop(self, within: float = 30.0) -> int | None:
        """SIGTERM: what Kubernetes does first; answers the exit code."""
        return await self.process.stop(within)

    async def restart(self) -> None:
        """Stops it in order and starts it again, on the same ports."""
        await self.stop()
        await self.start()

    def log_lines(self) -> list[dict[str, Any]]:
        """Its log so far, decoded; anything that is not JSON, such as a traceback, as `{"raw": line}`."""
        return [_decoded(line) for line in self.log.read_text(errors="replace").splitlines()]

    async def metric(self, name: str, **labels: str) -> float:
        """The sum over the samples of that name that carry the labels; 0 where there is none."""
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
