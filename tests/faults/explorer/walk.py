"""Plays one history, from empty accounts to the deletion of every trace, and checks every oracle at each settling."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

import aiohttp

from tests.faults.explorer.history import Act, Do
from tests.faults.explorer.people import People, written
from tests.faults.explorer.world import World
from tests.faults.plans import Plan, Word
from tests.faults.run import Run
from tests.support.eventually import eventually
from tests.support.kube import KubeError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.faults.explorer.field import Field
    from tests.faults.explorer.history import History
    from tests.faults.stage import Stage
    from tests.support.kube import Manifest

# Seconds that an act's calls are waited for.
_SOON: Final = 0.7
# Seconds by which the cloud's clock advances at each look: undelivered webhooks are retried, hours are billed.
_CLOUD_STEP: Final = 20.0


class Broken(Exception):
    """An oracle is broken, and waiting cannot help."""


class Walk(Run):
    """The run of a history on its field."""

    def __init__(self, stage: Stage, field: Field, history: History) -> None:
        super().__init__(stage.proxy, stage.operators, field, Plan(history.name, "", word=Word.AS_FOUND))
        self.field, self.history = field, history
        self.people, self.world = People(field), World(stage, field)
        self.done: list[Act] = []

    async def to_its_end(self) -> None:
        """Plays the history; raises AssertionError or Broken at the first settling that finds something wrong."""
        await self._eventually(self.field.account_ready, "the accounts are Ready")
        for act in self.history.acts:
            self.done.append(act)
            await self._do(act)
        await self._comes_to_rest()
        wanted = {name: written(item) for name, item in self.field.wanted.items()}
        came_of_it = await self.field.statuses()
        secrets, exposed = await self.field.canaries(), await self.field.exposed()
        await self._everything_goes()
        await self._tells_no_secret(secrets, exposed)
        await self._comes_of_it_undisturbed(wanted, came_of_it)

    async def _comes_of_it_undisturbed(self, wanted: dict[str, Manifest], disturbed: dict[str, Any]) -> None:
        """Asserts that the final manifests, applied again without faults, lead to the same statuses."""
        self.field.wanted.update(wanted)
        await self._comes_to_rest()
        undisturbed = await self.field.statuses()
        assert disturbed == undisturbed, f"the history came to {disturbed}, and undisturbed it is {undisturbed}"
        await self._everything_goes()

    async def _do(self, act: Act) -> None:
        self.proxy.phase = str(act.do)
        if act.do is Do.SETTLE:
            return await self._comes_to_rest()
        so_far = len(self.proxy.log)
        if not await self.people.do(act):
            await self.world.do(act)
        await self.people.insist()
        with contextlib.suppress(AssertionError):
            await eventually(self._calls(so_far + act.calls), within=_SOON, every=0.02)
        return None

    def _calls(self, number: int) -> Callable[[], Awaitable[bool]]:
        async def came() -> bool:
            return len(self.proxy.log) >= number

        return came

    async def _comes_to_rest(self) -> None:
        await self.world.heal()
        await self.people.take_their_hands_off()
        await self._eventually(self._all_are_up, "every operator is up")
        await self._settles()
        await self._writes_nothing_more()
        await self._was_never_wrong()

    async def _everything_goes(self) -> None:
        """Deletes the objects, which end what they have, then ends in the cloud what accounts report."""
        self.field.wanted.clear()
        had = {item.get("status", {}).get("id") for item in await self.field.objects()}
        for kind in ("GpuPod", "GpuCluster"):
            await self.field.kube.delete_all(kind)
        await self._eventually(self._is_gone, "every object is gone")
        alive = had & set(await self.field.books.alive())
        assert not alive, f"the finalizers are gone, and in the cloud there is still {alive}"
        await self._settles()
        for cloud_id in await self.field.told():
            await self.field.books.end(cloud_id)
        await self._eventually(self._nothing_is_told, "accounts tell no more of what has gone")
        await self._was_never_wrong()

    async def _nothing_is_told(self) -> bool:
        """Asserts that accounts report nothing with an id; the operator cannot check what has only a name."""
        told = [(account, one) for account, one in await self.field.told_by_accounts() if one.get("id")]
        assert not told, f"accounts tell of {told}"
        return True

    async def _was_never_wrong(self) -> None:
        await self.field.verify_the_past()
        self.field.own_ids(self.proxy.recorded)

    async def _look_while_the_clouds_time_passes(self) -> bool:
        await self.people.insist()
        if await self._all_are_up():
            await self.field.workspace.cloud.control.advance(_CLOUD_STEP)
        try:
            self.field.own_ids(self.proxy.recorded)
        except AssertionError as wrong:
            raise Broken(str(wrong)) from wrong
        with contextlib.suppress(KubeError, aiohttp.ClientError):
            if await self.field.settled():
                await self.field.verify()
                return await self.field.settled()
        return False

    async def _answer_if_asked(self) -> None:
        with contextlib.suppress(KubeError, aiohttp.ClientError):
            await self.people.answer()
