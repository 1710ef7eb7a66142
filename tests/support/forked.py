"""Starts Python programs by forking a process that has already imported them.

Importing the operator costs most of a second of CPU, the local cloud and `kubectl relay` little less, and tests start
about a hundred of each. A fork skips the imports, but has its own process id, session, environment, files and signals,
and its starter sees its exit code. The shared cloud starts as users start it, and so do the shared operators the first
time and `kubectl relay` in a test of its own and on the pages of the docs, so tests still cover the imports.

`python -m tests.support.forked DESCRIPTOR MODULE...` is the process that imports and forks.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from tests.support.eventually import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

POSSIBLE: Final = sys.platform == "linux"
_LIBC: Final = ctypes.CDLL(None) if POSSIBLE else None
_ROOT: Final = Path(__file__).resolve().parents[2]
_LONGEST_REQUEST: Final = 2**18
_PR_SET_PDEATHSIG: Final = 1


def die_with_parent() -> None:
    """Makes the kernel send this process SIGKILL when the thread that started it ends; no effect except on Linux."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Forked:
    """A forked server, with the part of the interface of `subprocess.Popen` that Process uses."""

    def __init__(self, told: int) -> None:
        self.stdout: IO[bytes] | None = None
        self._told = os.fdopen(told, "rb", buffering=0)
        """A pipe with one line for the process id and, later, one for the exit code."""
        self.pid = int(self._told.readline() or -1)
        if self.pid < 0:
            raise ChildProcessError("the process that has loaded the servers has ended")
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Returns the exit code (negative: the signal that ended it); None while it runs."""
        if self.returncode is None and select.select([self._told], [], [], 0)[0]:
            self.returncode = int(self._told.readline() or -signal.SIGKILL)
            self._told.close()
        return self.returncode

    def wait(self, timeout: float) -> int:
        """Waits for the exit code; raises subprocess.TimeoutExpired after `timeout` seconds."""
        if self.returncode is None:
            select.select([self._told], [], [], timeout)
        if (ended := self.poll()) is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout)
        return ended

    def send_signal(self, number: int) -> None:
        """Sends a signal; does nothing if the process has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Sends SIGKILL; does nothing if the process has ended."""
        self.send_signal(signal.SIGKILL)


@dataclass(frozen=True)
class Program:
    """A call of `main(arguments)` in a module that `loaded` has imported."""

    loaded: Loaded
    module: str
    arguments: Sequence[str]

    def start(self, env: Mapping[str, str] | None, out: int, log: int, given: int | None = None) -> Forked:
        """Forks a process that runs it, with these descriptors as stdout, stderr and stdin (by default, nothing)."""
        variables = os.environ if env is None else env
        if given is not None:
            return self.loaded.fork(self, variables, (given, out, log))
        with Path(os.devnull).open("rb") as nothing:
            return self.loaded.fork(self, variables, (nothing.fileno(), out, log))

    def piped(self, env: Mapping[str, str], log: int) -> Forked:
        """Forks a server that runs it, with a pipe as stdout."""
        reads, writes = os.pipe()
        server = self.start(env, writes, log)
        os.close(writes)
        server.stdout = os.fdopen(reads, "rb")
        return server


class Loaded:
    """The process that has imported these modules; it starts at the first fork and ends with this process."""

    def __init__(self, *modules: str) -> None:
        self._modules = modules
        self._channel: socket.socket | None = None

    def fork(self, program: Program, env: Mapping[str, str], files: Sequence[int]) -> Forked:
        """Forks a process that runs the program with these as stdin, stdout and stderr.

        Raises ChildProcessError if the importing process has ended.
        """
        if self._channel is None:
            self._channel = self._load()
        request = json.dumps((program.module, list(program.arguments), dict(env))).encode()
        told, tells = os.pipe()
        socket.send_fds(self._channel, [request], [*files, tells])
        os.close(tells)
        return Forked(told)

    def _load(self) -> socket.socket:
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-m", __name__, str(its.fileno()), *self._modules]
        loading = subprocess.Popen(command, cwd=_ROOT, pass_fds=[its.fileno()], start_new_session=True)
        its.close()

        def end() -> None:
            ours.close()
            loading.wait(timeout=PATIENCE_SECONDS)

        atexit.register(end)
        return ours


_CLI: Final = "relay_cli.__main__"
_OPERATOR: Final = Loaded(
    "relay_operator.__main__", "relay_operator.app", "tests.faults.hurried", _CLI, "relay_operator.preview"
)
CLOUD: Final = "relay_localcloud.__main__"
SHIFTED: Final = "tests.localcloud.support.shifted"
_CLOUD: Final = Loaded(CLOUD, "relay_localcloud.serve", SHIFTED)
OPERATOR: Final = Program(_OPERATOR, "relay_operator.__main__", ("run",))
HURRIED_OPERATOR: Final = Program(_OPERATOR, "tests.faults.hurried", ("run",))


def cloud(module: str, *arguments: str) -> Program:
    """Returns CLOUD or SHIFTED with these arguments."""
    return Program(_CLOUD, module, arguments)


def cli(*words: str) -> Program:
    """Returns `kubectl-relay` with these words."""
    return Program(_OPERATOR, _CLI, words)


def _next(channel: socket.socket) -> tuple[str, list[str]]:
    """Forks a server per request; returns only in a server, with its module and arguments.

    The process itself exits when the other end of the channel is closed.
    """
    while True:
        request, files, _, _ = socket.recv_fds(channel, _LONGEST_REQUEST, 4)
        _reap()
        if not request:
            os._exit(0)
        if os.fork() == 0 and _is_server(files):
            break
        for descriptor in files:
            os.close(descriptor)
    channel.close()
    module, arguments, env = json.loads(request)
    os.environ.clear()
    os.environ.update(env)
    return module, arguments


def _reap() -> None:
    """Reaps children that have ended, so that their resource usage counts towards this process."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _is_server(files: Sequence[int]) -> bool:
    """Forks again and returns only in the server; the parent reports its process id and exit code, then exits."""
    *standard, tells = files
    die_with_parent()
    server = os.fork()
    if server == 0:
        die_with_parent()
        os.setsid()
        for own, given in enumerate(standard):
            os.dup2(given, own)
            os.close(given)
        os.write(tells, f"{os.getpid()}\n".encode())  # By now it has its own session and files.
        os.close(tells)
        return True
    for descriptor in standard:
        os.close(descriptor)
    _, status = os.waitpid(server, 0)
    os.write(tells, f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _main() -> int:
    channel = socket.socket(fileno=int(sys.argv[1]))
    gc.disable()
    for module in sys.argv[2:]:
        importlib.import_module(module)
    gc.freeze()
    gc.enable()
    chosen, arguments = _next(channel)
    sys.argv[1:] = arguments
    status: int = sys.modules[chosen].main(arguments)
    return status


if __name__ == "__main__":
    sys.exit(_main())
