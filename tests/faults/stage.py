"""The operator behind a fault proxy, on which plans are played one after another."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from dataclasses import dataclass
from functools import partial
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
# Waits of the operator that are long for people's sake, as short as plans can bear.
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
# Of several replicas.
LEASE = {
    "leader_election": "true",
    "lease_duration_seconds": "5",
    "lease_renew_deadline_seconds": "4",
    "lease_retry_seconds": "0.3",
    "log_level": "debug",  # No secret may be told at any level.
}
_MOST_RESTARTS = 8
# Operators that share a Lease lose it, and end, whenever a busy machine lets none of them renew it in time.
_MOST_RESTARTS_OF_REPLICAS = 40
# What another operator gets to finish what a frozen one began.
_TO_TAKE_OVER = 8.0
_TO_LEAD = 60.0
_TO_ANSWER = 2.0


class Stage:
    """The processes. Plans may be played one after another; one that failed is followed by fresh operators.

    `replicas` operators run at once; `api_server` is the process that plans may kill, where they may; `store` is where
    batches may read and write; `under` is a command that runs the operators. One operator alone is hurried; of several,
    what was frozen gets its answer, however late.
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
        """The one that a hold keeps standing still until another leads."""
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
        """Plays a plan and asks every oracle but the comparison with the undisturbed run; raises AssertionError."""
        return await self.on(
            lambda kube, site: prepared(kube, site, plan.scenario),
            lambda ground: Run(self.proxy, self.operators, ground, plan).through(),
        )

    async def on(
        self,
        prepare: Callable[[Kube, Site], Awaitable[GroundT]],
        through: Callable[[GroundT], Coroutine[None, None, T]],
    ) -> T:
        """Something on a ground of its own, while operators run; raises AssertionError where it fails."""
        self.proxy.arm()
        for operator in self.operators:
            if not operator.process.running:
                with contextlib.suppress(StartError):  # One that lost its Lease at once is started again.
                    await operator.start()
        async with Kube(self.cluster.kubeconfig) as kube:
            ground = await prepare(kube, self._site)
            try:
                played = await self._attended(through(ground), ground)
                await ground.leave()
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
        """The run, while somebody does the deeds of holds and starts again whichever operator has ended."""
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
        frozen = self.frozen = await self.leader()
        os.kill(frozen.process.pid, signal.SIGSTOP)
        self.thaw()
        try:
            with self._telling_their_ends():
                await eventually(partial(self.another_leads, frozen), within=_TO_LEAD, what="another operator leads")
            if held.action.when is Moment.ACTED:  # What the server answered by then is long over.
                with contextlib.suppress(AssertionError):
                    await eventually(ground.at_rest, within=_TO_TAKE_OVER)
            held.release()
        finally:
            self.frozen = None
            self.thaw()

    def thaw(self) -> None:
        """All go on but the one that a hold keeps frozen."""
        for operator in self.operators:
            if operator is not self.frozen and operator.process.running:
                with contextlib.suppress(ProcessLookupError):  # It was killed meanwhile.
                    os.kill(operator.process.pid, signal.SIGCONT)

    async def _sender(self) -> Operator:
        """Of what is held: the leader, or one that is frozen, and in whose place nobody leads so far."""
        return (len(self.operators) > 1 and await self._found_leader()) or self.frozen or await self.leader()

    async def leader(self) -> Operator:
        """The operator that does the work."""
        if len(self.operators) == 1:
            return self.operators[0]
        with self._telling_their_ends():
            found = await eventually(self._found_leader, within=_TO_LEAD, what="an operator leads")
        assert found is not None
        return found

    @contextlib.contextmanager
    def _telling_their_ends(self) -> Iterator[None]:
        """Adds to a failure how the operators' logs end."""
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
        """Whether one of the others does the work."""
        return any([await _leads(operator) for operator in self.operators if operator is not frozen])

    async def _start_again(self, operations: Collection[str]) -> None:
        for operator in self.operators:
            await operator.stop()
        begun = len(self.proxy.log)

        async def asked() -> set[str]:
            return {one.call.operation for one in self.proxy.since(begun)}

        # `_keep_running` starts them.
        await eventually(asked, lambda seen: seen.issuperset(operations), what="what is there is looked at")

    async def _keep_running(self) -> None:
        """Starts an operator again whenever it has ended, as Kubernetes does."""
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
    """Stages on an API server that tests share. The operator that they share rests meanwhile."""

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
        """A stage, until the end of the block."""
        await self.shared_operator.operator.stop()
        around = (self.folders.mktemp("stage"), self.cluster, self.operator_kubeconfig, cloud, settings, replicas)
        async with Stage(*around, store=store, neighbour=neighbour, under=under) as stage:
            yield stage


async def _leads(operator: Operator) -> bool:
    """One that is being started again does not, nor one that is frozen."""
    with contextlib.suppress(aiohttp.ClientError, TimeoutError):
        async with asyncio.timeout(_TO_ANSWER):
            return await operator.metric("gpurelay_leader") == 1
    return False
