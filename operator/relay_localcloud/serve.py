"""`relay-localcloud serve`: four ports, one process, the ready line, and a clean end."""

import asyncio
import logging
import resource
import signal
import ssl
import sys
import tempfile
from argparse import Namespace
from collections.abc import Callable
from contextlib import AsyncExitStack, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop
from pydantic import JsonValue

from relay_localcloud import addresses, app
from relay_localcloud.addresses import Binding
from relay_localcloud.app import Options
from relay_localcloud.cloud import Cloud
from relay_localcloud.control.exports import is_fresh
from relay_localcloud.control.state import Reset, seed
from relay_localcloud.egress.reach import Reach, is_loopback
from relay_localcloud.gateway.directory import Directory
from relay_localcloud.gateway.server import GatewayServer
from relay_localcloud.http.json_values import parsed
from relay_localcloud.http.servers import ListenError, Server
from relay_localcloud.http.visitors import Visitors
from relay_localcloud.kernel import disk, keys, memory
from relay_localcloud.kernel.disk import InUseError, StateError, StateFileError
from relay_localcloud.kernel.store import Store, read_meta
from relay_localcloud.runtimes.runtime import INSTANCE, Unusable
from relay_localcloud.ssh.bounds import Bounds
from relay_localcloud.ssh.server import SshServer

if TYPE_CHECKING:
    from relay_localcloud.runtimes.kubernetes.config import RuntimeConfig
    from relay_localcloud.runtimes.kubernetes.regions import Regions

_log = logging.getLogger("relay_localcloud")
_LONGEST_START_SECONDS = 30
_LONGEST_WAIT_SECONDS = 10
"""Longer than a cloud that was told to end takes for that."""
_PAUSE_SECONDS = 0.1
_DESCRIPTORS = 65_536
_Port = Server | GatewayServer | SshServer


def start(chosen: Namespace) -> int:
    """Serve as the command line says; returns 0 when told to end, 1 with a sentence on stderr if it cannot start."""
    ports = (chosen.port, chosen.inference_port, chosen.gateway_port, chosen.ssh_port)
    binding = Binding(chosen.host, *ports, chosen.tls, chosen.advertise, chosen.gateway_domain, chosen.public_url)
    switches = (chosen.list_vms, chosen.public_control, chosen.admin_token_file)
    reach = Reach.of_server(binding.reached_at, chosen.allow_network)
    beyond_loopback = not is_loopback(binding.reached_at)
    first = (chosen.state, chosen.clock, chosen.seed)
    options = Options(*first, *switches, reach, beyond_loopback, chosen.key_file, chosen.public_url)
    memory.return_large_blocks()
    _take_descriptors()
    try:
        _require_closed_control(options)
        containers = _containers(chosen)
        with asyncio.Runner(loop_factory=loop_factory(containers)) as runner:
            runner.run(serve(binding, options, containers))
    except (StateError, ListenError, StateFileError, Unusable) as error:
        sys.stderr.write(f"relay-localcloud: {error}\n")
        return 1
    return 0


def loop_factory(containers: "RuntimeConfig | None") -> Callable[[], asyncio.AbstractEventLoop]:
    """uvloop, which costs less CPU, for simulated workloads only; it would cut off the output of containers.

    If a server closes a TLS connection whose reading is paused, uvloop drops what it has read and not passed on
    (0.23: `eof_received` of its `sslproto.pyx`). asyncio passes it on once reading resumes.
    """
    return uvloop.new_event_loop if containers is None else asyncio.new_event_loop


def _require_closed_control(options: Options) -> None:
    """Raise Unusable if webhooks could use the control interface, which without a token trusts this machine."""
    if options.beyond_loopback and options.reach.includes_this_machine and options.admin_token is None:
        raise Unusable(
            "--allow-network names addresses of this machine, from which the control interface needs no token: "
            "any organization's webhook could use it. Give --admin-token-file, too, or other networks."
        )


def _containers(chosen: Namespace) -> "RuntimeConfig | None":
    """The configuration of the cluster that runs workloads; None: they are simulated. Raises Unusable."""
    if chosen.runtime == "simulated":
        if chosen.runtime_config is not None or chosen.cluster:
            raise Unusable("--runtime-config and --cluster need --runtime kubernetes")
        return None
    if chosen.state is None or chosen.seed is not None or chosen.clock != "real":
        raise Unusable("--runtime kubernetes needs --state DIR, and works with neither --seed nor --clock frozen")
    from relay_localcloud.runtimes.kubernetes import opening  # noqa: PLC0415 - only this runtime needs it

    return opening.read((chosen.runtime_config, dict(chosen.cluster)))


def _take_descriptors() -> None:
    """Raise the limit of descriptors as far as allowed: strangers' connections must leave some for the cloud's own."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft < enough:
        resource.setrlimit(resource.RLIMIT_NOFILE, (enough, hard))


async def serve(binding: Binding, options: Options, containers: "RuntimeConfig | None" = None) -> None:
    """Serve until SIGTERM or SIGINT.

    Raises StateError, ListenError, StateFileError and Unusable before the ready line.
    """
    document = None if options.seed is None else _read_seed(options.seed)
    async with AsyncExitStack() as stack:
        listeners = addresses.bound(binding, stack)
        urls = addresses.urls(binding, listeners)
        with nullcontext() if options.state is None else disk.opening(options.state):
            store = Store.ephemeral() if options.state is None else await _opened_state(options.state)
            stack.callback(store.close)
            _require_same_runtime(store, containers)
            runtime = None if containers is None else await _opened(stack, store, options, containers)
            cloud = app.open_cloud(store, options, urls.endpoints, urls.inference, runtime)
            stack.callback(cloud.files.close)
            founded = seed(cloud, document)
        tls = _tls(binding, options, stack)
        *api_listeners, gateway_listener, ssh_listener = listeners
        apis = zip(app.apis(cloud, options, Reset(document, founded)), api_listeners, app.REFUSALS, strict=True)
        directory, visitors = Directory(store, cloud.clock.now, runtime), Visitors(store)
        gateway = GatewayServer(
            directory, binding.workload_names, cloud.under_way, cloud.turns, visitors, gateway_listener, tls
        )
        servers: list[_Port] = [
            *(Server(api, visitors, listener, tls, refused) for api, listener, refused in apis),
            gateway,
            SshServer(cloud, visitors, ssh_listener, Bounds()),
        ]
        await _run(cloud, servers, addresses.ready_line(urls, founded), runtime)


async def _opened_state(directory: Path) -> Store:
    """The state in a directory, after up to _LONGEST_WAIT_SECONDS for another process that has it, as one that ends.

    Raises StateError.
    """
    loop = asyncio.get_running_loop()
    last, waits = loop.time() + _LONGEST_WAIT_SECONDS, False
    while True:
        try:
            return Store.at(directory)
        except InUseError as error:
            if loop.time() >= last:
                raise
            if not waits:
                _log.warning("Waiting %d s for it: %s", _LONGEST_WAIT_SECONDS, error)
            waits = True
            await asyncio.sleep(_PAUSE_SECONDS)


def _require_same_runtime(store: Store, containers: "RuntimeConfig | None") -> None:
    """Raise StateError if the state is of another runtime: its workloads would be billed without running."""
    with store.transaction(at=0) as tx:
        real, fresh = read_meta(tx.connection, INSTANCE) is not None, is_fresh(tx)
    if real != (containers is not None) and (real or not fresh):
        whose = "--runtime kubernetes" if real else "--runtime simulated"
        raise StateError(
            f"The state directory {store.directory} belongs to {whose}: serve it with that, or choose another."
        )


async def _opened(stack: AsyncExitStack, store: Store, options: Options, containers: "RuntimeConfig") -> "Regions":
    from relay_localcloud.runtimes.kubernetes import opening  # noqa: PLC0415 - only this runtime needs it

    return await stack.enter_async_context(opening.opened(store, containers, keys.open_vault(store, options.key_file)))


async def _run(cloud: Cloud, servers: list[_Port], line: str, runtime: "Regions | None" = None) -> None:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    serving = [asyncio.create_task(server.run_until_told()) for server in servers]
    async with asyncio.timeout(_LONGEST_START_SECONDS):
        for server in servers:
            await server.ready()
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
    async with cloud.upstreams, cloud.deliveries, cloud.batches:
        working = [asyncio.create_task(work) for work in (cloud.clock.run(), *([runtime.run()] if runtime else ()))]
        stopping, returning = asyncio.create_task(ended.wait()), asyncio.create_task(memory.tidy())
        # Only the signal may end it: after a defect in the clock, a cloud whose time stands still must not go on.
        done, _ = await asyncio.wait([*working, stopping, *serving], return_when=asyncio.FIRST_COMPLETED)
        cloud.followers.end()
        for server in servers:
            server.end()
        for task in (*working, stopping, returning):
            task.cancel()
        await asyncio.gather(*serving)
        for task in working:
            with suppress(asyncio.CancelledError):
                await task
    if stopping not in done:
        raise RuntimeError("a server ended by itself")


def _tls(binding: Binding, options: Options, stack: AsyncExitStack) -> ssl.SSLContext | None:
    if not binding.tls:
        return None
    if options.state is None:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="relay-localcloud-")))
    else:
        directory = options.state
    from relay_localcloud.http import certificate  # noqa: PLC0415 - only --tls needs it, and loading it takes its time

    context = certificate.server_context(directory, binding.known_as, f"*.{binding.gateway_domain}")
    _log.info("The certificate to trust is %s", directory / "tls.crt")
    return context


def _read_seed(path: Path) -> JsonValue:
    try:
        return parsed(path.read_bytes())
    except (OSError, ValueError) as error:
        raise StateFileError(f"the seed {path} cannot be read: {error}") from error
