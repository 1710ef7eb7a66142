"""A production VM that really runs is reached at the port that its host names: section 2, "VM", endpoint URL forms."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from aiohttp import web

import relay_localcloud.app  # noqa: F401 - every table, as in the running cloud
from relay_localcloud.gateway.connections import Connections
from relay_localcloud.gateway.directory import Directory
from relay_localcloud.gateway.endpoints import Names
from relay_localcloud.http.turns import Turns
from relay_localcloud.http.under_way import UnderWay
from relay_localcloud.http.visitors import Visitors
from relay_localcloud.identity import organizations
from relay_localcloud.kernel.store import Store
from relay_localcloud.runtimes.runtime import Way
from relay_localcloud.workloads.records import PRODUCTION
from relay_localcloud.workloads.workloads import VM, WORKLOADS
from relay_wire.pods import PodStatus
from tests.localcloud.support.gateway import Upstream
from tests.localcloud.support.kubelet import Kubelet
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@dataclass
class _Guest(Kubelet):
    """The guest of the VM is this machine."""

    ports: list[int] = field(default_factory=list)
    """Those that it was asked for."""

    def way(self, organization_id: str, workload_id: str, port: int, uid: str | None = None) -> Way | None:
        self.ports.append(port)
        return Way(f"http://127.0.0.1:{port}", f"Port {port}", "u")


def _vm(store: Store, http_port: int) -> None:
    """A public production VM whose container port this is."""
    kept: dict[str, Any] = {"kind": VM, "status": PodStatus.RUNNING, "changed_at": 0, "created_at": 0, "gpu_count": 0}
    sold = {"price_per_hour_cents": 1, "http_port": http_port, "tier": PRODUCTION, "capability_tier": PRODUCTION}
    named = {"id": "vm_1", "name": "vm", "label": "vm-1", "public": True, "compute_class": "", "request": "{}"}
    with store.transaction() as tx:
        organization_id = organizations.found(tx, "o", 0, ()).organization_id
        WORKLOADS.insert(tx, organization_id=organization_id, **kept, **sold, **named)


@asynccontextmanager
async def _gateway(guest: _Guest, http_port: int) -> AsyncIterator[int]:
    """The port of a gateway to the guest, as long as the context lasts."""
    store = Store.ephemeral()
    _vm(store, http_port)
    connections = Connections(Directory(store, lambda: 0, guest), Names(), UnderWay(), Turns())
    opened = partial(connections.open, Visitors(store))
    server = await asyncio.get_running_loop().create_server(opened, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()
    await connections.close(0)
    store.close()


@asynccontextmanager
async def _asking(gateway: int, host: str, path: str = "/") -> AsyncIterator[asyncio.StreamReader]:
    """A request to the gateway; its answer can be read as long as the context lasts."""
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    yield reader
    writer.close()


def _port(upstream: Upstream) -> int:
    return int(upstream.url.rpartition(":")[2])


async def test_each_host_of_a_production_vm_leads_to_its_own_port() -> None:
    guest = _Guest()
    async with Upstream() as main, Upstream() as metrics, _gateway(guest, _port(main)) as gateway:
        for port in (_port(main), _port(metrics), _port(main), _port(metrics)):
            async with _asking(gateway, f"{port}-vm-1.localhost") as reader:
                assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
        async with _asking(gateway, "127.0.0.1", "/_w/vm_1/") as reader:
            assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
        assert guest.ports == [*[_port(main), _port(metrics)] * 2, _port(main)]
        assert (len(main.received), len(metrics.received)) == (3, 2)


async def test_what_passes_to_a_port_is_looked_at_again_at_that_port() -> None:
    guest = _Guest()

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"begun")
        await asyncio.Event().wait()
        return response

    async def asked() -> list[int]:
        return guest.ports

    async with (
        Upstream(stream) as metrics,
        _gateway(guest, 80) as gateway,
        _asking(gateway, f"{_port(metrics)}-vm-1.localhost") as reader,
    ):
        await reader.readuntil(b"begun")
        guest.moved("vm_1")
        assert await eventually(asked, lambda ports: len(ports) == 2) == [_port(metrics)] * 2
