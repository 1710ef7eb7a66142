"""Acts of the world: processes are killed or frozen, requests fail, the cloud's clock jumps, its nodes are lost."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from tests.faults.explorer.field import PLENTY
from tests.faults.explorer.history import Act, Do, kind_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from tests.faults.explorer.field import Field
    from tests.faults.stage import Stage


class World:
    """Everything except people."""

    def __init__(self, stage: Stage, field: Field) -> None:
        self._stage, self._field = stage, field
        self._control = field.workspace.cloud.control
        self._lost: set[str] = set()
        self._acts: Mapping[Do, Callable[[Act], Awaitable[None]]] = {
            Do.KILL: self._kill,
            Do.FREEZE: self._freeze,
            Do.THAW: self._thaw,
            Do.FAULT: self._fault,
            Do.LOSE_WEBHOOKS: self._lose_webhooks,
            Do.CLOCK: self._clock,
            Do.FUNDS_GO: self._funds,
            Do.FUNDS_COME: self._funds,
            Do.NODE_LOST: self._lose_node,
            Do.NODES_BACK: self._nodes_back,
        }

    async def do(self, act: Act) -> None:
        """Does an act of the world, if it is possible; ignores others."""
        if act.do in self._acts:
            await self._acts[act.do](act)

    async def heal(self) -> None:
        """Ends every fault: thaws operators, restores funds and nodes."""
        self._stage.proxy.disarm()
        await self._control.clear_faults()
        for do in (Do.THAW, Do.FUNDS_COME, Do.NODES_BACK):
            await self.do(Act(do))

    async def _kill(self, act: Act) -> None:
        await self._stage.operators[act.number].kill()

    async def _freeze(self, act: Act) -> None:
        """Thaws all, then freezes one operator, unless a hold keeps another frozen: then this one must lead."""
        self._stage.thaw()
        process = self._stage.operators[act.number].process
        if self._stage.frozen is None and process.running:
            os.kill(process.pid, signal.SIGSTOP)

    async def _thaw(self, _: Act) -> None:
        self._stage.thaw()

    async def _fault(self, act: Act) -> None:
        if act.rule is not None:
            self._stage.proxy.also(act.rule)

    async def _lose_webhooks(self, act: Act) -> None:
        for organization in self._field.organizations:
            await self._control.fault("webhook", {"lose": True}, organizationId=organization.id, count=act.number)

    async def _clock(self, act: Act) -> None:
        await self._control.advance(act.number)

    async def _funds(self, act: Act) -> None:
        cents = PLENTY if act.do is Do.FUNDS_COME else -1
        for organization in self._field.organizations:
            await self._control.change_organization(organization.id, balanceCents=cents)

    async def _lose_node(self, act: Act) -> None:
        item = await self._field.kube.find(kind_of(act.object), act.object) or {}
        name = (item.get("status") or {}).get("cloudName")
        mine = {cloud_id for cloud_id, given in self._field.site.made.items() if given == name}
        for node in await self._control.nodes():
            if any(unit["workloadId"] in mine for unit in node["units"]):
                await self._control.change_node(node["id"], reporting=False)
                self._lost.add(node["id"])

    async def _nodes_back(self, _: Act) -> None:
        for node_id in sorted(self._lost):
            await self._control.change_node(node_id, reporting=True)
        self._lost.clear()
