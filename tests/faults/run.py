"""Plays one plan, from the account to the deletion of every trace, and checks every oracle."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import aiohttp

from tests.faults import oracles
from tests.faults.ground import UNKNOWN
from tests.faults.plans import Plan, Word
from tests.faults.scenarios import ENDED_WITH_ITS_NAMESPACE
from tests.support.controlplane import Ready
from tests.support.eventually import eventually
from tests.support.faultrules import Overtaken
from tests.support.kube import KubeError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from tests.faults.ground import Ground
    from tests.support.faultproxy import FaultProxy
    from tests.support.faultrules import Armed, Logged, Rule
    from tests.support.operator import Operator

    Check = Callable[[], Awaitable[bool]]

# Looks and seconds without a write that count as quiet; statuses have whole seconds, so it is more than one.
_QUIET_LOOKS, _QUIET = 3, 2.0
# Longer in an undisturbed run, and in one plan of each class, so that every periodic request is in it.
_LONG_QUIET = 8.0
# Seconds in which every periodic request is sent several times.
_ROUNDS = 12.0
# Seconds that a person takes to look into the cloud and answer.
_THOUGHT = 2.5
# Seconds by which the cloud's clock advances at each look after a crash, so that undelivered webhooks are retried soon.
_CLOUD_STEP = 40.0
# Seconds between two looks while the operator writes nothing.
_EVERY = 0.25


@dataclass(frozen=True)
class Ending:
    """What a run leaves behind; every plan must leave the same as the undisturbed run."""

    statuses: Mapping[str, object]
    created: int
    paid_for: int
    results: Mapping[str, object]


@dataclass(frozen=True)
class Played:
    """The course of a plan: its ending, the calls in order, and the rules that met no call."""

    ending: Ending
    calls: tuple[Logged, ...]
    unmet: tuple[Rule, ...]


class Run:
    """The run of one plan on one ground."""

    def __init__(self, proxy: FaultProxy, operators: Sequence[Operator], ground: Ground, plan: Plan) -> None:
        self.proxy, self.operators, self.ground, self.plan = proxy, operators, ground, plan
        self._first = len(proxy.log)
        self._armed: tuple[Armed, ...] = ()
        self._asked_at = time.monotonic()
        self._log_starts = [one.log.stat().st_size if one.log.exists() else 0 for one in operators]

    async def through(self) -> Played:
        """Plays the plan: account, create, Ready, steps, quiet, delete, gone. Raises AssertionError."""
        ground = self.ground
        self.proxy.phase = "account"
        self._armed = self.proxy.arm(*self.plan.rules)
        await ground.apply_account()
        await self._eventually(ground.account_ready, "the account is Ready")
        await self._disturb_webhooks()
        faults = await self._disturb_cloud()
        self.proxy.phase = "create"
        await ground.apply_object()
        await self._becomes_ready()
        for fault in faults:
            await ground.workspace.cloud.control.end_fault(fault)
        for step in ground.scenario.steps:
            self.proxy.phase = step.phase
            await step.act(ground)
            await self._settles()
        self.proxy.phase = "rest"
        await self._writes_nothing_more()
        statuses = await ground.statuses()
        secrets, exposed = await ground.canaries(), await ground.exposed()
        self.proxy.phase = ground.scenario.end
        await self._is_deleted()
        left = await ground.spent()
        await self._was_never_wrong()
        assert not left.alive, f"the finalizer is gone, and in the cloud there is still {left.alive}"
        self.proxy.phase = "leave"
        calls = tuple(self.proxy.since(self._first))
        oracles.assert_told(self.proxy.late, calls)
        unmet = tuple(one.rule for one in self._armed if not one.met or self._never_came(one.rule))
        self.proxy.disarm()
        await self._tells_no_secret(secrets, exposed)
        # An object forced away during its create may or may not get a resource, which is then ended.
        created, paid_for = (0, 0) if ground.scenario.forced else (left.created, len(left.paid_for))
        ending = Ending(statuses, created, paid_for, await ground.results())
        return Played(ending, calls, unmet)

    def _never_came(self, rule: Rule) -> bool:
        """Whether the rule holds a create back that no later attempt overtook."""
        return isinstance(rule.action, Overtaken) and not self.proxy.late

    async def _disturb_webhooks(self) -> None:
        workspace = self.ground.workspace
        for fault in self.plan.webhooks:
            more = {} if fault.count is None else {"count": fault.count}
            effect = {fault.effect: fault.value}
            await workspace.cloud.control.fault("webhook", effect, organizationId=workspace.organization.id, **more)

    async def _disturb_cloud(self) -> list[str]:
        workspace = self.ground.workspace
        return [
            await workspace.cloud.control.fault(
                fault.operation, {fault.effect: fault.value}, organizationId=workspace.organization.id
            )
            for fault in self.plan.cloud
        ]

    async def _becomes_ready(self) -> None:
        if self.plan.word in {Word.ADOPT_ID, Word.RETRY_CREATE}:
            await self._eventually(self._is_asked, "Stalled/CreateOutcomeUnknown")
            await self.ground.say(self.plan.word)
        await self._settles()

    async def _settles(self) -> None:
        await self._eventually(self._look_while_the_clouds_time_passes, "everything is as its author wants it")

    async def _was_never_wrong(self) -> None:
        await self.ground.verify_the_past()
        self.ground.books.own_ids(self.proxy.recorded)

    async def _look_while_the_clouds_time_passes(self) -> bool:
        crashed = self.plan.crashes and self.plan.word is Word.NOTHING
        if crashed and self.ground.lives_by_webhooks and await self._all_are_up():
            await self.ground.workspace.cloud.control.advance(_CLOUD_STEP)
        try:
            if not await self.ground.settled():
                return False
            await self._was_never_wrong()
            await self.ground.verify()
            return await self.ground.settled()  # Status may still report what was found and ended meanwhile.
        except (KubeError, aiohttp.ClientError):
            return False

    async def _all_are_up(self) -> bool:
        """Whether every operator is ready, so that it can receive webhooks."""
        answers = [await Ready(f"{one.metrics_url}/readyz")() for one in self.operators]
        return all(answers)

    async def _writes_nothing_more(self) -> None:
        """Waits for a period with several looks at the settled objects and no write, and with no fault."""
        start, since = len(self.proxy.log), time.monotonic()
        began = since
        awaited = self._still_to_come("rest")
        seen: list[str] = []

        async def quiet() -> bool:
            nonlocal start, since, awaited
            calls = self.proxy.since(start)
            written = oracles.writes(calls)
            was_awaited, awaited = awaited, self._still_to_come("rest")
            if written or awaited != was_awaited:  # what a fault leads to is written a moment after it is met
                seen.extend(written)
                start, since = len(self.proxy.log), time.monotonic()
            looks = sum(one.call.operation in self.ground.scenario.kind.look for one in calls)
            usual = _LONG_QUIET if self.plan.waits_long or not self.plan.disturbs else _QUIET
            quiet_for = max(usual, self.plan.quiet)
            long_enough = looks >= _QUIET_LOOKS and time.monotonic() - since >= quiet_for
            over = not awaited or time.monotonic() - began >= _ROUNDS
            return long_enough and over and await self.ground.settled()

        try:
            await self._eventually(quiet, "the operator is quiet", self.plan.within + self.plan.quiet)
        except AssertionError as busy:
            raise AssertionError(f"{busy}\nwritten after everything was Ready:\n" + "\n".join(seen[-20:])) from busy

    def _still_to_come(self, phase: str) -> bool:
        """Whether a rule for this phase has met no call yet."""
        return any(one.rule.phase == phase and not one.met for one in self._armed)

    async def _is_deleted(self) -> None:
        kube, scenario = self.ground.kube, self.ground.scenario
        if scenario.end == ENDED_WITH_ITS_NAMESPACE:
            await kube.delete("Namespace", self.ground.namespace)
        else:
            await kube.delete_all(scenario.kind.name)
        await self._eventually(self._is_gone, "everything is gone")

    async def _is_gone(self) -> bool:
        with contextlib.suppress(KubeError, aiohttp.ClientError):
            return not await self.ground.objects() and (
                # After the operator's finalizers, the namespace controller decides when the namespace is gone.
                self.ground.scenario.end != ENDED_WITH_ITS_NAMESPACE or not await self.ground.kube.list("CloudAccount")
            )
        return False

    async def _tells_no_secret(self, secrets: Sequence[str], exposed: dict[str, str]) -> None:
        metrics: list[str] = []

        async def read() -> bool:
            """Reads the metrics of all operators; one that was frozen ends when it sees that it lost its Lease."""
            with contextlib.suppress(aiohttp.ClientError):
                metrics[:] = [await oracles.metrics_text(one.metrics_url) for one in self.operators]
            return bool(metrics)

        await self._eventually(read, "every operator tells its metrics")
        log = "".join(self._logs())
        oracles.assert_no_traceback(log)
        oracles.assert_no_secret(secrets, {**exposed, "the operator's log": log, "metrics": "".join(metrics)})

    def _logs(self) -> list[str]:
        texts = []
        for operator, start in zip(self.operators, self._log_starts, strict=True):
            with operator.log.open("rb") as log:
                log.seek(start)
                texts.append(log.read().decode(errors="replace"))
        return texts

    async def _is_asked(self) -> bool:
        return await self.ground.asking() is not None

    async def _answer_if_asked(self) -> None:
        """Answers as a careful person does, after a while: a create that has just begun is not billed yet."""
        if UNKNOWN not in self.proxy.state:
            self._asked_at = time.monotonic()
            return
        with contextlib.suppress(KubeError, aiohttp.ClientError):
            if not await self._is_asked():
                self._asked_at = time.monotonic()
            elif time.monotonic() - self._asked_at > _THOUGHT:
                await self.ground.say(Word.AS_FOUND)

    async def _eventually(self, look: Check, what: str, within: float | None = None) -> None:
        """Waits for a condition; a failure reports an oracle that was broken, else the statuses and the last calls."""

        async def look_and_answer() -> bool:
            if self.plan.word is Word.AS_FOUND:
                await self._answer_if_asked()
            return await look()

        try:
            await self._in_time(look_and_answer, what, self.plan.within if within is None else within)
        except AssertionError as late:
            await self._was_never_wrong()
            item = await self.ground.found() or {}
            called = [f"{one.call} -> {one.status}" for one in self.proxy.since(self._first)[-30:]]
            accounts = [one.get("status") for one in await self.ground.kube.list("CloudAccount")]
            told = [f"status: {item.get('status')}", f"accounts: {accounts}", f"the cloud: {await self.ground.spent()}"]
            told += ["last calls:", *called]
            raise AssertionError("\n".join([str(late), *told])) from late

    async def _in_time(self, look: Check, what: str, at_most: float) -> None:
        """Waits for so many seconds, not counting the time in which a call is held or an operator frozen."""
        within = at_most
        while True:
            try:
                await eventually(look, within=within, what=what, every=_EVERY, pause=self.proxy.written)
            except AssertionError:
                within = min(self.proxy.let_go_at + at_most - time.monotonic(), at_most)
                if within <= 0:
                    raise
            else:
                return
