"""The operators behind a fault proxy, with which plans are played one after another."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeVar

import aiohttp

from tests.faults import deeds, hurried
from tests.faults.ground import Site
from tests.faults.grounds import prepared
from tests.faults.run import Played, Run
from tests.support.eventually import eventually
from tests.support.faultproxy import FaultProxy, Held
from tests.support.faultrules import Deed, Moment, Side
from tests.support.forked import HURRIED_OPERATOR, OPERATOR
from tests.support.kube import Kube
from tests.support.operator import Operator
from tests.support.process import StartError, tail

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Iterator, Mapping, Sequence
    from pathlib import Path

    import pytest

    from tests.conftest import SharedOperator
    from tests.faults.ground import Ground
    from tests.faults.neighbour import Neighbour
    from tests.faults.plans import Plan
    from tests.support.controlplane import Cluster
    from tests.support.localcloud import LocalCloud
    from tests.support.process import Process
    from tests.support.s3 import S3Server

T = TypeVar("T")
GroundT = TypeVar("GroundT", bound="Ground")
OPERATOR_NAMESPACE = "relay-system"
# The operator's intervals and delays, as short as plans allow.
QUICK = {
    "leader_election": "false",
    "poll_transition_seconds": "0.5",
    "poll_settled_seconds": "0.5",
    "resync_seconds": "5",
    "secret_reread_seconds": "2",
    "backoff_initial_seconds": "0.2",
    "backoff_max_seconds": "2",
    "absence_seconds": "0.5",
    "newborn_seconds": "2",
    "search_seconds": "2",
    "absence_after_unknown_seconds": "2",
}
# Settings for several replicas.
LEASE = {
    "leader_election": "true",
    "lease_duration_seconds": "5",
    "lease_renew_deadline_seconds": "4",
    "lease_retry_seconds": "0.3",
    "log_level": "debug",  # No secret may be logged at any level.
}
_MOST_RESTARTS = 8
# On a busy machine, replicas may fail to renew their Lease in time and end.
_MOST_RESTARTS_OF_REPLICAS = 40
# Seconds that another operator gets to finish what a frozen one began.
_TO_TAKE_OVER = 20.0
_TO_LEAD = 60.0
_TO_ANSWER = 2.0


class Stage:
    """The processes for plans, which are played one after another; after a failed plan the operators start afresh.

    `replicas` operators run at once; `api_server` is a process that plans may kill; `store` is for batches that read
    and write buckets; `under` is a command that wraps the operators. A single operator has short timeouts (`hurried`);
    replicas do not, so that a frozen one gets its answer however late.
    """

    def __init__(
        self,
        folder: Path,
        cluster: Cluster,
        operator_kubeconfig: Path,
        cloud: LocalCloud,
        settings: Mapping[str, str] | None = None,
        replicas: int = 1,
        api_server: Process | None = None,
        store: S3Server | None = None,
        *,
        neighbour: Neighbour | None = None,
        under: Sequence[str] = (),
    ) -> None:
        self.cluster = cluster
        further = {Side.INFERENCE: cloud.inference_url} | ({} if store is None else {Side.STORE: store.url})
        self.proxy = FaultProxy(folder / "proxy", operator_kubeconfig, cloud.management_url, further)
        made = (self.proxy.made, self.proxy.late)
        self._site = Site(cloud, self.proxy.urls, *made, self._start_again, store, neighbour)
        self.restarts = 0
        self.most_restarts = _MOST_RESTARTS if replicas == 1 else _MOST_RESTARTS_OF_REPLICAS
        self.frozen: Operator | None = None
        """The operator that a hold keeps frozen until another leads."""
        self._freezing = asyncio.Lock()
        self._api_server = api_server
        allowed = (self.proxy.urls[Side.CLOUD], self.proxy.urls[Side.INFERENCE])
        chosen, command = {**QUICK, **(settings or {})}, (*under, *(hurried.COMMAND if replicas == 1 else ()))
        self.operators = tuple(
            Operator(
                folder / f"operator-{number}",
                self.proxy.kubeconfig,
                OPERATOR_NAMESPACE,
                allowed,
                chosen,
                command,
                None if under else HURRIED_OPERATOR if replicas == 1 else OPERATOR,
            )
            for number in range(replicas)
        )

    async def __aenter__(self) -> Self:
        await self.proxy.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        for operator in self.operators:
            await operator.kill()
        await self.proxy.stop()

    async def play(self, plan: Plan) -> Played:
        """Plays a plan; asserts every oracle except the comparison with the undisturbed run."""
        return await self.on(
            lambda kube, site: prepared(kube, site, plan.scenario),
            lambda ground: Run(self.proxy, self.operators, ground, plan).through(),
        )

    async def on(
        self,
        prepare: Callable[[Kube, Site], Awaitable[GroundT]],
        through: Callable[[GroundT], Coroutine[None, None, T]],
    ) -> T:
        """Prepares a ground, runs `through` on it while operators run, and cleans up; after a failure, by force."""
        self.proxy.arm()
        for operator in self.operators:
            if not operator.process.running:
                with contextlib.suppress(StartError):  # One that lost its Lease at once is started again.
                    await operator.start()
        async with Kube(self.cluster.kubeconfig) as kube:
            ground = await prepare(kube, self._site)

            async def to_its_end() -> T:
                played = await through(ground)
                await ground.leave()  # attended too: an operator that was told to stop may end only now
                return played

            try:
                played = await self._attended(to_its_end(), ground)
            except BaseException:
                made = tuple(self.proxy.made)
                self.proxy.arm()
                for operator in self.operators:
                    await operator.kill()
                await ground.give_up(made)
                raise
            finally:
                await ground.close()
        return played

    async def _attended(self, run: Coroutine[None, None, T], ground: Ground) -> T:
        """Runs a run, does the deeds of held calls meanwhile, and restarts operators that have ended."""
        playing = asyncio.create_task(run)
        attending = [
            asyncio.create_task(deeds.attend(self.proxy.held, lambda held: self._do(held, ground))),
            asyncio.create_task(self._keep_running()),
        ]
        tasks: list[asyncio.Task[Any]] = [playing, *attending]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in attending:
                if task.done():
                    task.result()
            return await playing
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _do(self, held: Held, ground: Ground) -> None:
        match held.action.deed:
            case Deed.KILL_OPERATOR:
                await (await self._sender()).kill()
            case Deed.TERMINATE_OPERATOR:
                stopping = asyncio.ensure_future((await self._sender()).stop())
                held.release()
                await stopping
            case Deed.FREEZE_OPERATOR:
                async with self._freezing:
                    await self._freeze(held, ground)
            case Deed.RESTART_API_SERVER:
                assert self._api_server is not None, "this stage's API server is shared: nobody may kill it"
                await self._api_server.kill()
                held.release()
                await self._api_server.start()
            case Deed.NONE:
                pass

    async def _freeze(self, held: Held, ground: Ground) -> None:
        frozen = self.frozen = await self._stopped_leader()
        pid = frozen.process.pid
        self.thaw()

        async def replaced() -> bool:
            """Whether another leads, or somebody killed the frozen one: then what starts in its place may lead."""
            return frozen.process.pid != pid or await self.another_leads(frozen)

        try:
            with self._telling_their_ends():
                await eventually(replaced, within=_TO_LEAD, what="another operator leads")
            if held.action.when is Moment.ACTED:  # The answer must be outdated when it arrives.
                with contextlib.suppress(AssertionError):
                    await eventually(ground.at_rest, within=_TO_TAKE_OVER)
            held.release()
        finally:
            self.frozen = None
            self.thaw()

    async def _stopped_leader(self) -> Operator:
        """Sends SIGSTOP to the leader, or to its successor if it ends first."""
        while True:
            leader = await self.leader()
            with contextlib.suppress(ProcessLookupError):
                os.kill(leader.process.pid, signal.SIGSTOP)
                return leader

    def thaw(self) -> None:
        """Sends SIGCONT to all operators except the one that a hold keeps frozen."""
        for operator in self.operators:
            if operator is not self.frozen and operator.process.running:
                with contextlib.suppress(ProcessLookupError):  # It was killed meanwhile.
                    os.kill(operator.process.pid, signal.SIGCONT)

    async def _sender(self) -> Operator:
        """Returns the sender of a held call: the leader, else the frozen operator that none has replaced yet."""
        return (len(self.operators) > 1 and await self._found_leader()) or self.frozen or await self.leader()

    async def leader(self) -> Operator:
        """Returns the operator that leads; with several, waits until one does."""
        if len(self.operators) == 1:
            return self.operators[0]
        with self._telling_their_ends():
            found = await eventually(self._found_leader, within=_TO_LEAD, what="an operator leads")
        assert found is not None
        return found

    @contextlib.contextmanager
    def _telling_their_ends(self) -> Iterator[None]:
        """Adds the ends of the operators' logs to a failure."""
        try:
            yield
        except AssertionError as error:
            for operator in self.operators:
                error.add_note(f"The log of {operator.process.log} ends:\n{tail(operator.process.log, 30)}")
            raise

    async def _found_leader(self) -> Operator | None:
        leading = [operator for operator in self.operators if await _leads(operator)]
        return leading[0] if leading else None

    async def another_leads(self, frozen: Operator) -> bool:
        """Whether an operator other than `frozen` leads."""
        return any([await _leads(operator) for operator in self.operators if operator is not frozen])

    async def _start_again(self, operations: Collection[str]) -> None:
        for operator in self.operators:
            await operator.stop()
        begun = len(self.proxy.log)

        async def asked() -> set[str]:
            return {one.call.operation for one in self.proxy.since(begun)}

        # `_keep_running` restarts them.
        await eventually(asked, lambda seen: seen.issuperset(operations), what="what is there is looked at")

    async def _keep_running(self) -> None:
        """Restarts an operator whenever it has ended, as Kubernetes does; asserts a limit on restarts."""
        self.restarts = 0
        while True:
            await asyncio.sleep(0.05)
            for operator in self.operators:
                if operator.process.running:
                    continue
                self.restarts += 1
                end = tail(operator.process.log, 5)
                assert self.restarts <= self.most_restarts, f"the operator ends again and again; its log ends:\n{end}"
                operator.process.spawn()


@dataclass(frozen=True)
class Stages:
    """Makes stages on the API server that tests share; the shared operator is stopped meanwhile."""

    cluster: Cluster
    operator_kubeconfig: Path
    shared_operator: SharedOperator
    folders: pytest.TempPathFactory

    @contextlib.asynccontextmanager
    async def stage(
        self,
        cloud: LocalCloud,
        settings: Mapping[str, str] | None = None,
        replicas: int = 1,
        *,
        store: S3Server | None = None,
        neighbour: Neighbour | None = None,
        under: Sequence[str] = (),
    ) -> AsyncIterator[Stage]:
        """Yields a stage until the end of the block."""
        await self.shared_operator.operator.stop()
        around = (self.folders.mktemp("stage"), self.cluster, self.operator_kubeconfig, cloud, settings, replicas)
        async with Stage(*around, store=store, neighbour=neighbour, under=under) as stage:
            yield stage


async def _leads(operator: Operator) -> bool:
    """Whether the operator leads, by its metrics; false if it does not answer."""
    with contextlib.suppress(aiohttp.ClientError, TimeoutError):
        async with asyncio.timeout(_TO_ANSWER):
            return await operator.metric("gpurelay_leader") == 1
    return False
