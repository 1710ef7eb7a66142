"""Names whose DNS server never answers delay only the organization that named them."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from threading import Event
from typing import TYPE_CHECKING

import pytest

from relay_localcloud.egress.lookups import IN_ALL, Lookups
from relay_localcloud.kernel.acting import ORGANIZATION
from tests.localcloud.support.events import create_webhook, make_event
from tests.localcloud.support.server import COMMAND, Server
from tests.support.eventually import PATIENCE_SECONDS, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from relay_localcloud.egress.lookups import Found
    from tests.localcloud.support.receiver import Receiver

NEVER_ANSWERED = """
import asyncio, sys, time
from relay_localcloud.egress.lookups import Lookups

async def main():
    lookups = Lookups(lambda *_: time.sleep(3600))
    waiting = [asyncio.create_task(lookups.of("hangs.test", 443, 0)) for _ in range(100)]
    await asyncio.sleep(0)
    print("began", flush=True)

asyncio.run(main())
"""

NO_DNS_SERVER = """
import socket, time
ask = socket.getaddrinfo
def getaddrinfo(host, *rest, **named):
    if str(host).endswith("hangs.test"):
        time.sleep(3600)
    return ask(host, *rest, **named)
socket.getaddrinfo = getaddrinfo
"""
MANY = 50


class System:
    """Looks up names as the system does, but a name below `hangs.test` only once `answers` is set."""

    def __init__(self) -> None:
        self.answers = Event()
        self.begun: list[str] = []

    def __call__(self, host: str, port: int, family: int, kind: int, protocol: int, flags: int, /) -> Found:
        """Look one name up."""
        self.begun.append(host)
        if host == "nobody.test":
            raise socket.gaierror(socket.EAI_NONAME, "it does not exist")
        if host.endswith("hangs.test"):
            self.answers.wait(PATIENCE_SECONDS)
            host = "127.0.0.1"
        return socket.getaddrinfo(host, port, family, kind, protocol, flags)


@pytest.fixture
def system() -> Iterator[System]:
    """The system's lookups; the hanging ones end with the test."""
    asked = System()
    yield asked
    asked.answers.set()


def asking(lookups: Lookups, organization: str, host: str) -> asyncio.Task[Found]:
    """A lookup for an organization."""

    async def ask() -> Found:
        ORGANIZATION.set(organization)
        return await lookups.of(host, 443, socket.AF_UNSPEC)

    return asyncio.create_task(ask())


def addresses(found: Found) -> set[object]:
    """The addresses that were found."""
    return {each[4][0] for each in found}


async def test_a_thousand_hanging_lookups_of_an_organization_leave_places_for_each_of_the_next(system: System) -> None:
    lookups = Lookups(system)
    hanging = [asking(lookups, "theirs", f"{number}.hangs.test") for number in range(1000)]
    await asyncio.sleep(0)
    for number in range(10):
        organization = f"org_{number}"
        assert addresses(await asking(lookups, organization, "127.0.0.1")) == {"127.0.0.1"}
        hanging.append(asking(lookups, organization, "own.hangs.test"))
    assert len([each for each in system.begun if each.endswith("hangs.test")]) < IN_ALL / 3
    system.answers.set()
    for found in await asyncio.gather(*hanging):
        assert addresses(found) == {"127.0.0.1"}


async def test_a_lookup_that_nobody_awaits_any_more_keeps_its_place_until_it_ends(system: System) -> None:
    lookups = Lookups(system)
    for _ in range(3):
        given_up = [asking(lookups, "theirs", "hangs.test") for _ in range(100)]
        await asyncio.sleep(0)
        for task in given_up:
            task.cancel()
        await asyncio.gather(*given_up, return_exceptions=True)
    await eventually(lambda: asyncio.sleep(0, len(system.begun)), lambda count: count == IN_ALL // 4, every=0.01)
    after = asking(lookups, "theirs", "127.0.0.1")
    system.answers.set()
    assert addresses(await after) == {"127.0.0.1"}
    assert len(system.begun) == IN_ALL // 4 + 1


async def test_a_name_that_does_not_exist_is_an_error_and_frees_its_place(system: System) -> None:
    lookups = Lookups(system)
    for _ in range(IN_ALL):
        with pytest.raises(socket.gaierror, match="it does not exist"):
            await asking(lookups, "theirs", "nobody.test")
    assert len(system.begun) == IN_ALL


@pytest.mark.parametrize("name", ["a..b", ".a", f"{'a' * 64}.test"])
async def test_a_name_that_no_host_can_have_is_one_that_does_not_exist(name: str) -> None:
    with pytest.raises(OSError, match="label empty or too long"):
        await Lookups().of(name, 80, socket.AF_UNSPEC)


def test_a_process_ends_while_lookups_hang() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", NEVER_ANSWERED], capture_output=True, timeout=PATIENCE_SECONDS, check=False, text=True
    )
    assert (ended.returncode, ended.stdout) == (0, "began\n"), ended.stderr


async def test_receivers_whose_names_are_never_answered_delay_no_other_organization_and_not_the_end(
    tmp_path: Path, receiver: Receiver
) -> None:
    (tmp_path / "sitecustomize.py").write_text(NO_DNS_SERVER)
    server = Server(("--ephemeral",), (str(COMMAND),), environment={"PYTHONPATH": str(tmp_path)})
    server.start()
    try:
        await server.ok("PATCH", "/settings", {"webhookTimeoutSeconds": 1})
        theirs, other = await server.organization(), await server.organization()
        for number in range(MANY):
            body = {"name": "hook", "url": f"https://{number}.hangs.test/", "events": []}
            await theirs.ok("POST", "/v1/orgs/{org}/webhooks/create", body)
        await make_event(theirs)
        await eventually(lambda: server.ok("GET", "/deliveries"), lambda made: len(made["items"]) >= MANY)
        receiver.url = receiver.url.replace("127.0.0.1", "localhost")
        await create_webhook(other, receiver)
        await make_event(other)
        await eventually(lambda: asyncio.sleep(0, receiver.received))
        await asyncio.to_thread(server.stop)
    finally:
        server.kill()
