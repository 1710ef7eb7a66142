"""One replica: its parts, and how it starts, leads and ends."""

import asyncio
import contextlib
import gc
import logging
import os
import random
import resource
import secrets
import signal
import socket
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from importlib.metadata import version

from relay_client import CloudError
from relay_kube.errors import KubeError
from relay_kube.kube import NAMESPACES, ApiAccess, Kube
from relay_operator.assembly import assembled, used_with_accounts
from relay_operator.catalog.catalog import Catalog
from relay_operator.collector import Collector
from relay_operator.credentials import CredentialsError, api_access
from relay_operator.engine.backoff import Backoff, jittered
from relay_operator.engine.entry import uid_of
from relay_operator.engine.identity import installation_of
from relay_operator.engine.informer import Informer, RolledBackError
from relay_operator.engine.installed import Installed
from relay_operator.engine.kind import Kind, resource_type
from relay_operator.engine.workers import Workers
from relay_operator.flows.wiring import Parts
from relay_operator.http_server import http_server
from relay_operator.kinds import KINDS
from relay_operator.leader.election import Election, LeaseLostError, LeaseTimes
from relay_operator.leader.label import LeaderLabel
from relay_operator.leader.owner import own
from relay_operator.observability.health import Heartbeat, health_app
from relay_operator.observability.logs import EXPECTED_ERRORS, configure_logging
from relay_operator.observability.metrics import process_metrics
from relay_operator.proxies import Proxies, ProxyError
from relay_operator.settings import Settings, misspelt_settings
from relay_operator.watch import WATCH_ERRORS, Absence, WatchEndedError, watch
from relay_operator.webhooks.event_router import EventRouter
from relay_operator.webhooks.receiver import Receiver

logger = logging.getLogger(__name__)

_YOUNG = 20_000
"""New containers after which garbage is collected. Reference counting frees what a pass makes; at Python's own number,
a collection every few passes walked through what was still in use."""

EXPECTED = (*EXPECTED_ERRORS, *WATCH_ERRORS, KubeError, CloudError)
_ENDING_SECONDS = 6.0
_SILENT_SECONDS = 60.0
"""The least silence of the election for which a replica is restarted: one that cannot list objects yet waits between
its tries, however short the Lease is."""
_DESCRIPTORS = 8192
_FIRST_LIST_BACKOFF = Backoff(initial=0.2, limit=10.0)


async def run(settings: Settings, kinds: Sequence[Kind[Parts]] = KINDS) -> int:
    """Serve, stand for election, and lead until told to stop; returns the exit status.

    0 if it was told to stop; 1 if it cannot continue (a lost Lease, a broken watch, a restored etcd) and must be
    restarted.
    """
    configure_logging(settings.log_format, settings.log_level, sys.stderr, EXPECTED)
    for told in misspelt_settings():
        logger.warning("%s", told)
    _take_descriptors()
    stop = asyncio.Event()
    _stop_on_signals(stop)
    status = 0
    try:
        async with AsyncExitStack() as stack:
            api = await stack.enter_async_context(api_access(settings.connections))
            replica = _assemble(settings, api, kinds)
            await replica.serve(stop, stack)
    except* (
        LeaseLostError,
        WatchEndedError,
        RolledBackError,
        KubeError,
        OSError,
        CredentialsError,
        ProxyError,
    ) as errors:
        for error in _leaves(errors):
            logger.error("ending: %s", error)  # noqa: TRY400 - an error from outside: one line says enough
        status = 1
    return status


def _take_descriptors() -> None:
    """Raise the soft limit of open files, so that strangers' connections cannot exhaust it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft < enough:
        resource.setrlimit(resource.RLIMIT_NOFILE, (enough, hard))


def _stop_on_signals(stop: asyncio.Event) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


@dataclass(slots=True)
class App:
    """The parts that run; `serve` is their order."""

    parts: Parts
    kinds: Sequence[Kind[Parts]]
    informer: Informer
    workers: Workers
    receiver: Receiver
    election: Election
    pulse: Heartbeat
    """The heartbeat of the election's loop."""
    label: LeaderLabel
    collector: Collector
    catalog: Catalog
    installed: Installed
    synced: asyncio.Event = field(default_factory=asyncio.Event)
    standing_by: bool = True
    unseen: str | None = "the operator has not tried to list objects yet"
    """Why this replica could not lead; None if it could."""
    doubtful: asyncio.Event = field(default_factory=asyncio.Event)
    """Set if the cache is to be repaired at once."""

    @property
    def settings(self) -> Settings:
        return self.parts.settings

    async def serve(self, stop: asyncio.Event, stack: AsyncExitStack) -> None:
        """Answer health checks at once, and reconcile while leading. Returns when told to stop."""
        parts = self.parts
        health = health_app(parts.metrics, {"election": self._silence}, {"objects": self._not_ready})
        await stack.enter_async_context(http_server(health, self.settings.metrics_listen))
        await stack.enter_async_context(http_server(self.receiver.app(), self.settings.webhook_listen))
        stack.push_async_callback(parts.accounts.close)
        await stack.enter_async_context(parts.stores)
        if not self.settings.leader_election:
            await self._lead(stop)
            return
        stack.push_async_callback(self.election.release)  # a stop may cut off the answer to the claim
        if await _unless(stop, self._stand_by()):
            await self._lead(stop, self.election.hold())

    def _silence(self) -> str | None:
        return self.pulse.silence() if self.settings.leader_election else None

    def _not_ready(self) -> str | None:
        if self.standing_by:
            return self.unseen or self.installed.lacking() or self.election.unfit()
        return None if self.synced.is_set() else "the first list of objects is under way"

    async def _stand_by(self) -> None:
        """Wait for the Lease once all objects can be listed: an upgrade must not count on a replica that cannot.

        A replica that lacks some CRDs is not ready either, but leads if no other does.
        """
        await self.label.put(leading=False, on_try=self.pulse.beat)
        failures = 0
        while self.unseen is not None:
            self.pulse.beat()
            self.unseen = await self._obstacle()
            if self.unseen is not None:
                failures += 1
                logger.error("this replica cannot lead: %s", self.unseen)
                await asyncio.sleep(_FIRST_LIST_BACKOFF.after(failures, random.random))
        following = asyncio.create_task(self._follow_absent())
        try:
            await self.election.acquire()
        finally:
            following.cancel()
            await asyncio.wait((following,))

    async def _follow_absent(self) -> None:
        while True:
            await self._soon()
            if self.installed.absent:
                with contextlib.suppress(KubeError):
                    await self.installed.ask()

    async def _obstacle(self) -> str | None:
        watched = self.settings.watch_namespaces
        try:
            installed = await self.installed.ask()
        except KubeError as error:
            return f"the CRDs cannot be found: {error}"
        for kind in (resource_type(each.definition) for each in self.kinds if each.definition.plural in installed):
            for namespace in watched if kind.namespaced and watched else (None,):
                self.pulse.beat()  # hundreds of namespaces take minutes
                try:
                    await self.parts.engine.kube.look(kind, namespace)
                except KubeError as error:
                    return f"{kind.plural} cannot be listed{f' in {namespace}' if namespace else ''}: {error}"
        return None

    async def _lead(self, stop: asyncio.Event, *beside: Coroutine[None, None, None]) -> None:
        """Run until told to stop or until a part ends; all parts end together.

        Passes under way may finish, since a request just sent is worth its answer. A pass of a former leader sends
        nothing more, and its writes succeed only if nobody has changed the object meanwhile. Raises LeaseLostError, and
        the errors of the parts.
        """
        self.standing_by = False
        self.parts.metrics.leader.set_function(self.workers.leading)
        parts = (
            *beside,
            self._watch(stop),
            self._work(),
            self._repair(),
            self._follow_crds(),
            self._follow_catalog(),
            self.collector.run(),
            self.parts.engine.recorder.run(),
        )
        tasks = [asyncio.create_task(part) for part in parts]
        mark, told = asyncio.create_task(self._mark()), asyncio.create_task(stop.wait())
        try:
            ended, _ = await asyncio.wait((*tasks, told), return_when=asyncio.FIRST_COMPLETED)
            await self.workers.drain(self.settings.shutdown_seconds if self.workers.leading() else _ENDING_SECONDS)
        finally:
            for task in (*tasks, mark, told):
                task.cancel()
            await asyncio.wait((*tasks, mark, told), timeout=_ENDING_SECONDS)
            await self._finish()
        for task in ended - {told}:
            task.result()
        if told not in ended:  # the workers ended, before the election looked at its deadline again
            lease = f"{self.settings.namespace}/{self.settings.lease_name}"
            raise LeaseLostError(f"the Lease {lease} is lost: it could not be renewed in time")

    async def _finish(self) -> None:
        """Finish what must end before the Lease is released: writes of ids, and transfers."""
        if recording := self.parts.engine.recording:
            await asyncio.wait(recording, timeout=_ENDING_SECONDS)
        await self.parts.transfers.close()

    async def _mark(self) -> None:
        if self.settings.leader_election:
            await self.label.put(leading=True)
            await self.label.take_from(self.election.former)
            await own(self.parts.engine.kube, self.settings.namespace, self.settings.lease_name)

    async def _watch(self, stop: asyncio.Event) -> None:
        """List everything first: nothing may be adopted before the owners of all ids are known."""
        failures = 0
        while not self.synced.is_set():
            try:
                await self._identify()
                await self._relist()
            except KubeError as error:
                failures += 1
                logger.warning("the objects cannot be listed yet: %s", error)
                await asyncio.sleep(_FIRST_LIST_BACKOFF.after(failures, random.random))
            else:
                self.synced.set()
                gc.freeze()  # loaded objects stay: no later collection needs to walk through them
                gc.set_threshold(_YOUNG)
        settings = self.settings
        await watch(
            self.informer,
            {kind.name: resource_type(kind.definition) for kind in self.kinds},
            settings.watch_namespaces,
            lambda: _stop_on_signals(stop),
            Absence(settings.poll_transition_seconds, self.doubtful.set),
        )

    async def _identify(self) -> None:
        """Determine which cluster's operator this is, before any decision."""
        self.parts.engine.installation.name = self.settings.installation or installation_of(
            uid_of(await self.parts.engine.kube.get(NAMESPACES, None, "kube-system"))
        )

    async def _work(self) -> None:
        await self.synced.wait()
        await self.workers.run()

    async def _repair(self) -> None:
        """List all objects from time to time, to find what no event reported."""
        await self.synced.wait()
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(
                    jittered(self.settings.resync_seconds, self.settings.poll_jitter, random.random)
                ):
                    await self.doubtful.wait()
            self.doubtful.clear()
            try:
                await self._relist()
            except KubeError as error:
                logger.warning("the repairing list failed, the next one repairs: %s", error)

    async def _follow_crds(self) -> None:
        """Compare the CRDs again while one is older than this release, or may be: nothing is created until then."""
        await self.synced.wait()
        while True:
            await self._soon()
            if self.parts.engine.served.outdated or self.parts.engine.served.doubted:
                await self._compare()

    async def _soon(self) -> None:
        await asyncio.sleep(jittered(self.settings.poll_transition_seconds, self.settings.poll_jitter, random.random))

    async def _follow_catalog(self) -> None:
        """Run the catalog once accounts are known, since it uses one of them."""
        await self.synced.wait()
        await self.catalog.run()

    async def _compare(self) -> None:
        engine = self.parts.engine
        await engine.served.compare(engine.kube, engine.cache, engine.queue)

    async def _relist(self) -> None:
        """List all objects. Raises the first KubeError, after what else can be listed is repaired."""
        await self._compare()
        installed, failed = await self.installed.ask(), list[KubeError]()
        for kind in self.kinds:
            resource = resource_type(kind.definition)
            if resource.plural not in installed:
                self.informer.absent(kind.name)
                continue
            try:
                await self.informer.relist(self.parts.engine.kube, kind.name, resource, self.settings.watch_namespaces)
            except KubeError as error:
                failed.append(error)
        if self.synced.is_set() or not failed:
            await self.informer.vanished.load()
        if failed:
            raise failed[0]


async def _unless(stop: asyncio.Event, work: Coroutine[None, None, None]) -> bool:
    """Whether the work finished before the stop; if not, it is cancelled and has ended."""
    tasks = [asyncio.create_task(work), asyncio.create_task(stop.wait())]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    if pending:
        await asyncio.wait(pending)
    if tasks[0] in done:
        await tasks[0]
        return True
    return False


def _assemble(settings: Settings, api: ApiAccess, kinds: Sequence[Kind[Parts]]) -> App:
    metrics = process_metrics(version("relay-operator"), used_with_accounts(kinds))
    kube, pulse = Kube(api, on_write=metrics.on_write), Heartbeat(_longest_silence(settings), time.monotonic)
    election = _election(settings, kube, pulse.beat)
    leading = election.leading if settings.leader_election else lambda: True
    made = assembled(settings, kube, kinds, metrics, election.identity, leading, Proxies.of_environment())
    parts, engine, accounts = made.parts, made.parts.engine, made.parts.accounts
    cache, queue = engine.cache, engine.queue
    reconcilers = {kind.name: kind.reconciler(parts) for kind in kinds}
    return App(
        parts=parts,
        kinds=kinds,
        informer=Informer(cache, queue, engine.vanished, random.random, settings.poll_settled_seconds),
        workers=Workers(queue, reconcilers, settings.workers, leading),
        receiver=Receiver(
            secrets_for=accounts.webhook_secrets.of,
            seen_by=accounts.webhook_secrets.seen,
            on_event=EventRouter(cache, queue, accounts.unclaimed, accounts.heard).on_event,
            on_delivery=metrics.on_delivery,
            body_limit=settings.webhook_body_limit_bytes,
            deduplication_size=settings.webhook_deduplication_size,
        ),
        election=election,
        pulse=pulse,
        label=LeaderLabel(kube, settings.namespace, os.environ.get("POD_NAME")),
        collector=made.collector,
        catalog=Catalog(kube, cache, accounts, settings, leading, engine.wall_clock),
        installed=Installed(kube, [kind.definition.plural for kind in kinds]),
    )


def _longest_silence(settings: Settings) -> float:
    """Seconds after which an election that shows no sign of life hangs."""
    return max(settings.lease_duration_seconds * 4, _SILENT_SECONDS)


def _election(settings: Settings, kube: Kube, on_turn: Callable[[], None]) -> Election:
    times = LeaseTimes(
        settings.lease_duration_seconds, settings.lease_renew_deadline_seconds, settings.lease_retry_seconds
    )
    identity = os.environ.get("POD_NAME") or f"{socket.gethostname()}-{secrets.token_hex(4)}"
    return Election(kube, settings.namespace, settings.lease_name, identity, times, on_turn=on_turn)
