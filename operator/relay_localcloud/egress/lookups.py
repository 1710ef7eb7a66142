"""Looks names up in threads: hosts whose DNS server never answers delay only the organization that named them."""

import asyncio
import socket
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from threading import Thread
from typing import Final, Protocol, TypeAlias

from relay_localcloud.kernel.acting import ORGANIZATION
from relay_localcloud.kernel.shares import may_take

IN_ALL: Final = 128
"""Lookups at once."""

Found: TypeAlias = Sequence[tuple[int, int, int, str, tuple[str | int, ...] | tuple[int, bytes]]]


class LookUp(Protocol):
    """Looks one name up, and blocks until the answer, as `socket.getaddrinfo` does."""

    def __call__(self, host: str, port: int, family: int, kind: int, protocol: int, flags: int, /) -> Found: ...


class Lookups:
    """Looks each name up in a thread of its own, up to IN_ALL at once.

    A lookup cannot be cancelled, so it keeps its place until the system gives up. An organization gets its share of the
    places (`shares.may_take`); its other lookups wait.
    The threads are daemons: the process does not wait for them when it ends.
    """

    def __init__(self, look_up: LookUp = socket.getaddrinfo) -> None:
        self._look_up = look_up
        self._under_way: Counter[str] = Counter()
        self._waiting: dict[str, dict[asyncio.Future[Found], tuple[str, int, int]]] = {}

    async def of(self, host: str, port: int, family: int) -> Found:
        """The addresses of a host, for the organization that this task works for. Raises OSError."""
        owner = ORGANIZATION.get()
        answer: asyncio.Future[Found] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, {})[answer] = (host, port, family)
        self._begin(owner)
        try:
            return await answer
        finally:
            self._waiting.get(owner, {}).pop(answer, None)

    def _begin(self, owner: str) -> None:
        waiting = self._waiting[owner]
        while waiting and may_take(self._under_way[owner], IN_ALL - self._under_way.total()):
            answer = next(iter(waiting))
            thread = Thread(target=self._run, args=(owner, answer, *waiting.pop(answer)), daemon=True)
            self._under_way[owner] += 1
            try:
                thread.start()
            except RuntimeError as error:  # the process may have no more threads
                self._ended(owner, answer, OSError(str(error)))
        if not waiting:
            self._waiting.pop(owner, None)

    def _run(self, owner: str, answer: asyncio.Future[Found], host: str, port: int, family: int) -> None:
        found: Found | OSError
        try:
            found = self._look_up(host, port, family, socket.SOCK_STREAM, 0, socket.AI_ADDRCONFIG)
        except OSError as error:
            found = error
        except Exception as error:  # noqa: BLE001 - such as UnicodeError, for a name with an empty or too long label
            found = OSError(str(error))
        with suppress(RuntimeError):  # the loop is closed, and the process ends
            answer.get_loop().call_soon_threadsafe(self._ended, owner, answer, found)

    def _ended(self, owner: str, answer: asyncio.Future[Found], found: Found | OSError) -> None:
        self._under_way[owner] -= 1
        if not self._under_way[owner]:
            del self._under_way[owner]
        if not answer.done():
            if isinstance(found, OSError):
                answer.set_exception(found)
            else:
                answer.set_result(found)
        for waiting in list(self._waiting):
            self._begin(waiting)
