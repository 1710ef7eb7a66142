"""An SSH gateway in this process, with bounds and containers of the test's own, and a VM that runs behind it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import asyncssh

from relay_localcloud import app
from relay_localcloud.capacity.nodes import NewNode, add_node
from relay_localcloud.http.servers import listen
from relay_localcloud.http.visitors import Visitors
from relay_localcloud.identity import organizations
from relay_localcloud.kernel.store import Store
from relay_localcloud.ssh.bounds import Bounds
from relay_localcloud.ssh.server import SshServer
from relay_localcloud.workloads import admission, moves, workloads
from relay_localcloud.workloads.ssh_keys import KEYS
from relay_localcloud.workloads.transitions import Trigger
from relay_wire.pods import PodCreate
from relay_wire.vms import VmCreate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from relay_localcloud.runtimes.runtime import Containers


@dataclass(frozen=True)
class Gate:
    """Where it listens, and who may log in there."""

    store: Store
    port: int
    organization_id: str
    vm_id: str
    key: asyncssh.SSHKey

    async def connect(self) -> asyncssh.SSHClientConnection:
        """Log in to the VM."""
        options: dict[str, Any] = {"known_hosts": None, "client_keys": [self.key], "config": None, "agent_path": None}
        return await asyncssh.connect("127.0.0.1", self.port, username=self.vm_id, **options)

    def stop(self) -> None:
        """Stop the VM."""
        with self.store.transaction() as tx:
            vm = workloads.find(tx, self.vm_id)
            assert vm is not None
            moves.apply(tx, vm, Trigger.STOP)


@asynccontextmanager
async def serving(
    bounds: Bounds = Bounds(),  # noqa: B008 - it is frozen
    containers: Containers | None = None,
    *,
    of_vm: bool = False,
) -> AsyncIterator[Gate]:
    """The gateway, as long as the context lasts, and one workload: a VM, if it is to be or nothing runs, else a pod."""
    body = VmCreate(name="one") if of_vm or containers is None else PodCreate(name="one", image="app:1")
    store, key = Store.ephemeral(), asyncssh.generate_private_key("ssh-ed25519")
    cloud = app.open_cloud(store, app.Options(first_mode="frozen"), "http://localhost", "http://localhost")
    with store.transaction() as tx:
        founded, _ = organizations.seed(tx)
        node = add_node(tx, NewNode("h100", 8, "ams1", "eu-west", 512))
        room = admission.visible_node(tx, node, founded.organization_id)
        fields: dict[str, Any] = dict.fromkeys(("tier", "capability_tier"), "standard")
        fields |= {"gpu_model_id": room.gpu_model_id, "price_per_hour_cents": 1, "http_port": 80}
        fields |= {"volume_gb": 0, "disk_size_gb": 50}
        vm = admission.create(tx, body, founded.organization_id, room, 1, **fields)
        moves.apply(tx, vm, Trigger.STARTED)
        public = key.export_public_key().decode()
        named = {"id": "ssh_1", "name": "ada", "created_at": tx.now}
        KEYS.insert(tx, organization_id=founded.organization_id, public_key=public, **named)
    with listen("127.0.0.1", 0) as listener:
        server = SshServer(replace(cloud, containers=containers), Visitors(store), listener, bounds)
        running = asyncio.create_task(server.run_until_told())
        await server.ready()
        yield Gate(store, listener.getsockname()[1], founded.organization_id, vm.id, key)
        server.end()
        await running
    store.close()
