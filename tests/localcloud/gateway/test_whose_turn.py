"""Whose turn a visit takes: nobody whose workloads are flooded waits for those who are not let in, or for strangers."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import relay_localcloud.app  # noqa: F401 - every table, as in the running cloud
from relay_localcloud.gateway.connections import Connections
from relay_localcloud.gateway.directory import Directory
from relay_localcloud.gateway.endpoints import Names
from relay_localcloud.http.turns import REFUSED, Turns
from relay_localcloud.http.under_way import UnderWay
from relay_localcloud.http.visitors import Visitors
from relay_localcloud.identity import credentials, organizations
from relay_localcloud.kernel.store import Store
from relay_localcloud.workloads.workloads import POD, WORKLOADS
from relay_wire.pods import PodStatus

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from relay_localcloud.kernel.store import Tx


class _Watched(Turns):
    """Turns, and whose they were."""

    def __init__(self) -> None:
        super().__init__()
        self.lanes: list[str] = []
        self.meanwhile: Callable[[], None] = lambda: None
        """What happens while a request waits."""

    async def of(self, lane: str) -> None:
        self.lanes.append(lane)
        await super().of(lane)
        self.meanwhile()


class _Gateway:
    """A gateway with a private and a public pod of an organization."""

    def __init__(self) -> None:
        self.store, self.turns = Store.ephemeral(), _Watched()
        self.port = 0
        with self.store.transaction() as tx:
            self.organization_id = organizations.found(tx, "o", 0, ()).organization_id
            _, self.key = credentials.create_key(tx, self.organization_id, "k", ())
            _, self.other = credentials.create_key(tx, organizations.found(tx, "p", 0, ()).organization_id, "k", ())
            for label in ("private", "public"):
                _pod(tx, self.organization_id, label)
        directory = Directory(self.store, lambda: 0)
        self.connections = Connections(directory, Names(), UnderWay(), self.turns)

    async def visit(self, label: str, key: str | None, *more: str) -> tuple[bytes, list[str]]:
        """The status of an answer, and whose turns it took."""
        self.turns.lanes.clear()
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        authorization = () if key is None else (f"Authorization: Bearer {key}",)
        lines = ("GET / HTTP/1.1", f"Host: {label}.localhost", *authorization, *more, "Connection: close")
        head = "".join(f"{line}\r\n" for line in (*lines, ""))
        writer.write(head.encode("latin-1"))
        answered = await reader.read()
        writer.close()
        return answered.split()[1], list(self.turns.lanes)


def _pod(tx: Tx, organization_id: str, label: str) -> None:
    kept: dict[str, Any] = {"kind": POD, "status": PodStatus.RUNNING, "changed_at": 0, "created_at": 0, "gpu_count": 0}
    sold = {"price_per_hour_cents": 1, "http_port": 80, "tier": "", "capability_tier": "", "compute_class": ""}
    named = {"id": f"pod_{label}", "name": label, "label": label, "public": label == "public", "request": "{}"}
    WORKLOADS.insert(tx, organization_id=organization_id, **kept, **sold, **named)


@pytest.fixture
async def gateway() -> AsyncIterator[_Gateway]:
    opened = _Gateway()
    protocol = partial(opened.connections.open, Visitors(opened.store))
    server = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0)
    opened.port = server.sockets[0].getsockname()[1]
    yield opened
    server.close()
    await opened.connections.close(0)


async def test_who_is_not_let_in_takes_the_turn_of_all_who_are_refused(gateway: _Gateway) -> None:
    for key in (None, "or_" + "0" * 48, "or_\xff", gateway.other, gateway.other):
        status, lanes = await gateway.visit("private", key)
        assert status in {b"401", b"403"}
        assert lanes == [REFUSED]


async def test_who_is_let_in_takes_that_of_the_organization_once_the_key_is_known(gateway: _Gateway) -> None:
    assert await gateway.visit("private", gateway.key) == (b"200", [REFUSED])
    assert await gateway.visit("private", gateway.key) == (b"200", [gateway.organization_id])
    own = ("of-the-application", f"x-api-key: {gateway.key}")
    assert await gateway.visit("private", *own) == (b"200", [gateway.organization_id])


async def test_strangers_take_one_beside_that_of_the_organization(gateway: _Gateway) -> None:
    for key in (None, gateway.key):
        assert await gateway.visit("public", key) == (b"200", [f"visitors of {gateway.organization_id}"])


async def test_who_waits_is_not_let_in_once_the_endpoint_is_private_or_gone(gateway: _Gateway) -> None:
    def change(**changes: object) -> None:
        with gateway.store.transaction() as tx:
            WORKLOADS.change(tx, "pod_public", **changes)

    assert (await gateway.visit("public", None))[0] == b"200"
    gateway.turns.meanwhile = partial(change, public=False)
    assert (await gateway.visit("public", None))[0] == b"401"
    gateway.turns.meanwhile = partial(change, status=PodStatus.TERMINATED, terminated_at=1)
    assert (await gateway.visit("public", gateway.key))[0] == b"404"
