"""Local clouds that are started once for each set of flags, and freshly seeded for whoever takes one."""

from __future__ import annotations

import urllib.request
from collections import defaultdict
from typing import Final

from tests.localcloud.support.server import Server

_OF_ANY: Final = frozenset({"--ephemeral", "--clock", "frozen", "real", "--list-vms"})
_LONGEST_RESET_SECONDS: Final = 10.0


class Pool:
    """The local clouds of one test run, or of one of its workers."""

    def __init__(self) -> None:
        self._idle: defaultdict[tuple[str, ...], list[Server]] = defaultdict(list)

    def take(self, arguments: tuple[str, ...]) -> Server:
        """One with these arguments of `serve`: an idle one that was reset, else one that starts now."""
        idle = self._idle[arguments]
        while idle:
            server = idle.pop()
            if _was_reset(server):
                return server
            server.kill()
        server = Server(arguments)
        server.start()
        return server

    def give_back(self, server: Server) -> None:
        """Keep it for the next, unless it ended or has a state, a port or a certificate of its own."""
        if server.child.poll() is None and "--ephemeral" in server.arguments and _OF_ANY.issuperset(server.arguments):
            self._idle[server.arguments].append(server)
        else:
            server.kill()

    def close(self) -> None:
        """End all that are idle."""
        for idle in self._idle.values():
            for server in idle:
                server.stop()
        self._idle.clear()


def _was_reset(server: Server) -> bool:
    server.begin_anew()
    call = urllib.request.Request(server.ready["controlUrl"] + "/reset", method="POST")
    try:
        with urllib.request.urlopen(call, timeout=_LONGEST_RESET_SECONDS):
            pass
    except OSError:
        return False
    server.begin_anew()
    return True
