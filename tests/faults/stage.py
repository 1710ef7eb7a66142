"""One operator behind one fault proxy, on which plans are played one after another."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from tests.faults import oracles
from tests.faults.ground import Ground
from tests.faults.plans import Plan, Word
from tests.faults.scenarios import SCENARIOS
from tests.support.eventually import eventually
from tests.support.faultproxy import FaultProxy, Held
from tests.support.faultrules import Deed, Logged, Rule
from tests.support.kube import Kube, KubeError
from tests.support.operator import Operator

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping
    from pathlib import Path

    from tests.support.controlplane import Cluster
    from tests.support.localcloud import LocalCloud

OPERATOR_NAMESPACE = "relay-system"
# Waits of the operator that are long for people's sake, as short as plans can bear.
QUICK = {
    "leader_election": "false",
    "poll_transition_seconds": "0.5",
    "poll_settled_seconds": "0.5",
    "resync_seconds": "2",
    "secret_reread_seconds": "2",
    "backoff_initial_seconds": "0.2",
    "backoff_max_seconds": "2",
    "cloud_timeout_seconds": "3",
    "kubernetes_timeout_seconds": "3",
    "absence_seconds": "0.5",
    "newborn_seconds": "2",
    "search_seconds": "2",
    "log_level": "debug",
}
_QUIET_LOOKS = 3
_MOST_RESTARTS = 6
_WITHIN = 45.0
# How far the cloud's clock moves at each look after a crash: webhooks that nobody took are sent again in time.
_CLOUD_STEP = 20.0


@dataclass(frozen=True)
class Ending:
    """What an undisturbed run leaves behind, and what every plan must leave behind too."""

    statuses: Mapping[str, object]
    created: int
    paid_for: int
    left_alive: int


@dataclass(frozen=True)
class Played:
    """How a plan went: its ending, the calls in order, rules that met no call, and how often the operator ended."""

    ending: Ending
    calls: tuple[Logged, ...]
    unmet: tuple[Rule, ...]
    restarts: int


class Stage:
    """The processes. Plans may be played one after another; one that failed is followed by a fresh operator."""

    def __init__(self, folder: Path, cluster: Cluster, operator_kubeconfig: Path, cloud: LocalCloud) -> None:
        self.cluster = cluster
        self.cloud = cloud
        self.proxy = FaultProxy(folder / "proxy", operator_kubeconfig, cloud.management_url)
        allowed = (self.proxy.cloud_url, cloud.inference_url)
        self.operator = Operator(folder / "operator", self.proxy.kubeconfig, OPERATOR_NAMESPACE, allowed, QUICK)
        self.restarts = 0

    async def __aenter__(self) -> Self:
        await self.proxy.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.operator.kill()
        await self.proxy.stop()

    async def play(self, plan: Plan) -> Played:
        """Plays a plan and asks every oracle but the comparison with the undisturbed run; raises AssertionError."""
        if not self.operator.process.running:
            await self.operator.start()
        async with Kube(self.cluster.kubeconfig) as kube:
            self.proxy.arm()
            scenario = SCENARIOS[plan.scenario]
            ground = await Ground.prepare(kube, self.cloud, self.proxy.cloud_url, plan.scenario, scenario)
            try:
                played = await self._attended(_Run(self, ground, plan).through())
                await ground.leave()
            except BaseException:
                self.proxy.arm()
                await self.operator.kill()
                await ground.workspace.remove()
                raise
        return played

    async def _attended(self, run: Coroutine[None, None, Played]) -> Played:
        """The run, while somebody does the deeds of holds and starts the operator again when it ends."""
        playing = asyncio.create_task(run)
        attending = [asyncio.create_task(self._do_deeds()), asyncio.create_task(self._keep_running())]
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

    async def _do_deeds(self) -> None:
        while True:
            held = await self.proxy.held.get()
            try:
                await self._do(held)
            finally:
                held.release()

    async def _do(self, held: Held) -> None:
        match held.action.deed:
            case Deed.KILL_OPERATOR:
                await self.operator.kill()
            case Deed.TERMINATE_OPERATOR:
                stopping = asyncio.ensure_future(self.operator.stop())
                held.release()
                await stopping
            case Deed.RESTART_API_SERVER:
                raise AssertionError("this stage's API server is shared: nobody may kill it")
            case Deed.NONE:
                pass

    async def _keep_running(self) -> None:
        """Starts the operator again whenever it has ended, as Kubernetes does."""
        self.restarts = 0
        while True:
            await asyncio.sleep(0.05)
            if self.operator.process.running:
                continue
            self.restarts += 1
            assert self.restarts <= _MOST_RESTARTS, "the operator ends again and again"
            self.operator.process.spawn()


class _Run:
    """One plan from the first object to the last trace of it."""

    def __init__(self, stage: Stage, ground: Ground, plan: Plan) -> None:
        self.stage, self.ground, self.plan = stage, ground, plan
        self.first = len(stage.proxy.log)
        log = stage.operator.log
        self.log_start = log.stat().st_size if log.exists() else 0

    async def through(self) -> Played:
        """Create, Ready, quiet, delete, gone; answers what is left."""
        stage, ground = self.stage, self.ground
        armed = stage.proxy.arm(*self.plan.rules)
        for fault in self.plan.webhooks:
            more = {} if fault.count is None else {"count": fault.count}
            organization = ground.workspace.organization.id
            effect = {fault.effect: fault.value}
            await stage.cloud.control.fault("webhook", effect, organizationId=organization, **more)
        await ground.apply()
        await self._becomes_ready()
        await self._writes_nothing_more()
        statuses = await ground.statuses()
        alive, owned = await ground.alive_and_owned()
        assert alive == (owned,), f"alive in the cloud: {alive}; the object's own: {owned}"
        secrets, exposed = await ground.canaries(), await ground.exposed()
        await self._is_deleted()
        calls = tuple(stage.proxy.since(self.first))
        unmet = tuple(one.rule for one in armed if not one.met)
        left = await ground.spent()
        stage.proxy.arm()
        log = self._log()
        oracles.assert_no_traceback(log)
        metrics = await oracles.metrics_text(stage.operator.metrics_url)
        oracles.assert_no_secret(secrets, {**exposed, "the operator's log": log, "metrics": metrics})
        ending = Ending(statuses, left.created, len(left.paid_for), len(left.alive))
        return Played(ending, calls, unmet, stage.restarts)

    async def _becomes_ready(self) -> None:
        look = self._look_while_the_clouds_time_passes
        if self.plan.word is not Word.NOTHING:
            await eventually(self.ground.asks_a_person, within=_WITHIN, what="Stalled/CreateOutcomeUnknown")
            await self.ground.say(self.plan.word)
        try:
            await eventually(look, within=_WITHIN, what="the object is Ready")
        except AssertionError as late:
            raise AssertionError(f"{late}\n{await self.ground.found()}\n{await self.ground.spent()}") from late

    async def _look_while_the_clouds_time_passes(self) -> bool:
        if self.plan.crashes and self.plan.word is Word.NOTHING:
            await self.stage.cloud.control.advance(_CLOUD_STEP)
        try:
            return await self.ground.settled()
        except KubeError:
            return False

    async def _writes_nothing_more(self) -> None:
        """Some looks in a row at what has settled, and not one write beside them."""
        proxy = self.stage.proxy
        start = len(proxy.log)
        seen: list[str] = []

        async def quiet() -> bool:
            nonlocal start
            calls = proxy.since(start)
            written = oracles.writes(calls, self.ground.namespace)
            if written:
                seen.extend(written)
                start = len(proxy.log)
            return sum(one.call.operation in self.ground.scenario.kind.look for one in calls) >= _QUIET_LOOKS

        try:
            await eventually(quiet, within=_WITHIN, what="the operator is quiet")
        except AssertionError as busy:
            raise AssertionError(f"{busy}\nwritten after everything was Ready:\n" + "\n".join(seen[-20:])) from busy

    async def _is_deleted(self) -> None:
        kind, name = self.ground.scenario.kind.name, self.ground.scenario.object
        await self.ground.kube.delete(kind, name)
        gone = partial(self.ground.kube.find, kind, name)
        await eventually(gone, lambda item: item is None, within=_WITHIN, every=0.05, what=f"{kind} {name} is gone")
        alive = (await self.ground.spent()).alive
        assert not alive, f"the finalizer is gone, and in the cloud there is still {alive}"

    def _log(self) -> str:
        with self.stage.operator.log.open("rb") as log:
            log.seek(self.log_start)
            return log.read().decode(errors="replace")
