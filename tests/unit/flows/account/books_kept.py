"""One account's books in a world that a test changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from relay_operator.api.meta import COST_CENTER, FINALIZER, ObjectKey
from relay_operator.flows.account.bookkeeping import Bookkeeper, Books, Departed, Page
from relay_operator.flows.account.spend import Month
from relay_wire.billing import CurrentUsage
from tests.unit.engine.apiserver import Json
from tests.unit.flows.managed.world import NAMESPACE, OPERATOR_NAMESPACE, World

if TYPE_CHECKING:
    from pydantic import JsonValue

    from relay_wire.vms import VmRecord

OWN = Page(ObjectKey("CloudAccount", NAMESPACE, "default"), "uid-of-the-account")
SHARED = Page(ObjectKey("ClusterCloudAccount", "", "default"), "uid-of-the-shared-account")


@dataclass
class Kept:
    """One account's books in a world; the usage is of what the world's cloud has."""

    world: World
    page: Page = OWN
    cents: dict[str, int] = field(default_factory=dict)
    """Of each id."""
    without_id: list[Json] = field(default_factory=list)
    """Lines of the usage that name no resource."""
    trouble: str = ""

    def __post_init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self.books, self.departed, cache = Books(), Departed(), self.world.cache
        self.bookkeeper = Bookkeeper(self.world.reconciler.engine, self.departed, OPERATOR_NAMESPACE)
        cache.on_left = lambda key, entry: self.departed.note(key, entry, cache.account_meant(key, entry))
        for page in (OWN, SHARED):
            named: dict[str, JsonValue] = {
                "name": page.account.name,
                "namespace": page.account.namespace,
                "uid": page.uid,
            }
            cache.put(page.account, {"metadata": named | {"finalizers": [FINALIZER]}})

    async def restart(self) -> None:
        """The process dies, and another begins."""
        await self.world.restart()
        self._begin()

    async def created(self, name: str, cents: int, cost_center: str = "") -> VmRecord:
        """An object that has a pod, which cost so much."""
        self.world.apply(name)
        if cost_center:
            self.label(name, cost_center)
        await self.world.settle()
        record = next(one for one in self.world.pods.live if one.id == self.world.status(name).id)
        self.cents[record.id] = cents
        return record

    def label(self, name: str, cost_center: str) -> None:
        self.world.server.edit("gpupods", NAMESPACE, name, {"metadata": {"labels": {COST_CENTER: cost_center}}})

    async def deleted(self, name: str) -> None:
        self.world.delete(name)
        await self.world.wait(10)
        assert not self.world.exists(name)

    def records(self, key: ObjectKey, uid: str, cloud_id: str, account: ObjectKey = SHARED.account) -> None:
        """An object whose status says that it has this id, truly or not."""
        status: JsonValue = {
            "id": cloud_id,
            "identity": {"installation": "c0ffe", "namespace": key.namespace, "name": key.name, "uid": uid},
            "account": {"kind": account.kind, "name": account.name},
        }
        metadata: JsonValue = {"name": key.name, "namespace": key.namespace, "uid": uid, "resourceVersion": "1"}
        self.world.cache.put(key, {"metadata": metadata, "status": status})

    async def month(self, *, read_only: bool = False) -> Month | None:
        state = self.world.account.ready
        lines = [
            {"resourceId": cloud_id, "name": self.world.pods.records[cloud_id].name, "cents": cents}
            for cloud_id, cents in self.cents.items()
        ]
        told = {"usageCents": sum(self.cents.values()), "usageHours": 1.0, "breakdown": [*self.without_id, *lines]}
        usage, now = CurrentUsage.model_validate(told), self.world.clock.wall()
        month, self.trouble = await self.bookkeeper.account(
            self.page, state, usage, self.books, now, read_only=read_only
        )
        return month

    async def spent(self) -> dict[tuple[str, str], int]:
        month = await self.month()
        assert month is not None
        return {(namespace, center): cents for namespace, center, cents in month.shares}

    @property
    def config_map(self) -> Json | None:
        namespace = self.page.account.namespace
        name = "relay-spend-default" if namespace else "relay-cluster-spend-default"
        return self.world.server.objects.get(("configmaps", namespace or OPERATOR_NAMESPACE, name))

    @property
    def writes(self) -> list[str]:
        """Of ConfigMaps."""
        return [one for one in self.world.server.writes if "configmaps" in one]
