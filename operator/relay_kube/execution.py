"""A process in a container of a Pod, over the WebSocket of the subresource `exec` (`v5.channel.k8s.io`)."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from relay_kube.channels import Channels, opened
from relay_kube.errors import Unavailable
from relay_kube.kube import PODS, Kube

PROTOCOL: Final = "v5.channel.k8s.io"
_STDIN, _STDOUT, _STDERR, _ERROR, _RESIZE, _CLOSE = 0, 1, 2, 3, 4, 255
_REST_SECONDS: Final = 10.0
"""How long the API server may take to close a connection after the end of its process."""
_FAILED: Final = 127
"""The exit status that shells use for what cannot be executed."""


@dataclass(frozen=True, slots=True)
class Printed:
    """Output of the process; `is_error` for its standard error."""

    data: bytes
    is_error: bool


@dataclass(frozen=True, slots=True)
class Exited:
    """The end of the process; `message` says why it could not begin, and is empty if it did."""

    status: int
    message: str = ""


class Execution:
    """A running process; iterating yields its output, and at last its end."""

    def __init__(self, connection: Channels) -> None:
        self._connection = connection

    async def send(self, data: bytes) -> None:
        """Write to the process's input. Raises ConnectionError if it has ended."""
        await self._connection.send(_STDIN, data)

    async def end_input(self) -> None:
        """Close the process's input."""
        await self._connection.send(_CLOSE, bytes([_STDIN]))

    async def resize(self, columns: int, lines: int) -> None:
        """Set the size of the process's terminal."""
        await self._connection.send(_RESIZE, json.dumps({"Width": columns, "Height": lines}).encode())

    async def __aiter__(self) -> AsyncIterator[Printed | Exited]:
        """Raises Unavailable if the connection ends without saying how the process ended.

        The API server copies each channel by itself, so that the end may overtake the last output.
        """
        ended: Exited | None = None
        messages = aiter(self._connection)
        while True:
            try:
                async with asyncio.timeout(None if ended is None else _REST_SECONDS):
                    channel, data = await anext(messages)
            except (StopAsyncIteration, TimeoutError):
                break
            except Unavailable:
                if ended is None:
                    raise
                break
            if channel == _ERROR:
                ended = _ending(data)
            elif channel in {_STDOUT, _STDERR} and data:
                yield Printed(data, channel == _STDERR)
        if ended is None:
            raise Unavailable(0, "Unreachable", "exec: the connection ended before the process did")
        yield ended


@asynccontextmanager
async def executed(
    kube: Kube, namespace: str, pod: str, container: str, command: Sequence[str], *, terminal: bool
) -> AsyncIterator[Execution]:
    """Run a command in a container, with a terminal or without one. Raises KubeError."""
    streams = {"stdin": "true", "stdout": "true", "stderr": str(not terminal).lower(), "tty": str(terminal).lower()}
    query = urlencode([("container", container), *streams.items(), *(("command", word) for word in command)])
    async with opened(kube, f"{PODS.path(namespace, pod, 'exec')}?{query}", PROTOCOL) as connection:
        yield Execution(connection)


def _ending(status: bytes) -> Exited:
    """How a process ended, read from the Status in the last message."""
    said = json.loads(status)
    if said.get("status") == "Success":
        return Exited(0)
    causes = (said.get("details") or {}).get("causes") or []
    codes = [cause.get("message", "") for cause in causes if cause.get("reason") == "ExitCode"]
    if codes and codes[0].isdigit():
        return Exited(int(codes[0]))
    return Exited(_FAILED, str(said.get("message") or "")[:500])
