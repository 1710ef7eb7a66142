"""A cluster's account with a budget, and who asks at it."""

import asyncio

from pydantic import JsonValue

from relay_client import Cloud
from relay_operator.api.cloudaccount import AccountBudget, NamespaceBudget, SharedBudget
from relay_operator.api.meta import ObjectKey
from relay_operator.budgets.budgets import Budgets
from relay_operator.budgets.lines import Age
from relay_operator.engine.account import AccountReady
from relay_operator.engine.cache import Cache
from relay_operator.engine.commitment import Commitment
from relay_operator.engine.queue import Queue
from relay_operator.engine.unclaimed_ids import UnclaimedIds

SHARED = ObjectKey("ClusterCloudAccount", "", "default")
REF: JsonValue = {"kind": "ClusterCloudAccount", "name": "default"}
ONE, TWO = Commitment(100, 1), Commitment(200, 2)


class Desk:
    """A cluster's account, and who asks at it."""

    def __init__(self) -> None:
        self.cache = Cache(priced=frozenset({"GpuPod"}))
        self.now = 0.0
        self.queue = Queue[ObjectKey](lambda: self.now)
        self.budgets = Budgets(self.cache, self.queue)
        self.burn = 0
        self._looked: tuple[AccountBudget | None, int] | None = None
        self._versions = iter(range(1, 1000))

    def version(self) -> str:
        """The next resource version."""
        return str(next(self._versions))

    def has(
        self, name: str, namespace: str = "team-a", reason: str = "", ref: JsonValue = REF, **status: JsonValue
    ) -> ObjectKey:
        """An object as the watch tells of it; the older, the earlier in the alphabet."""
        key = ObjectKey("GpuPod", namespace, name)
        created = f"2026-03-01T12:00:{ord(name) - ord('a'):02}Z"
        metadata: JsonValue = {
            "uid": f"u-{name}",
            "resourceVersion": f"{next(self._versions)}",
            "creationTimestamp": created,
        }
        conditions: JsonValue = [{"type": "Ready", "status": "False", "reason": reason}]
        raw = {"metadata": metadata, "spec": {"accountRef": ref}, "status": {"conditions": conditions, **status}}
        self.cache.put(key, raw)
        return key

    def is_let_go(self, name: str, **status: JsonValue) -> None:
        """An object as the watch tells of it once the operator has removed its finalizer, and another one is left."""
        metadata: JsonValue = {
            "uid": f"u-{name}",
            "resourceVersion": self.version(),
            "deletionTimestamp": "2026-03-01T13:00:00Z",
            "finalizers": ["example.com/audit"],
        }
        key = ObjectKey("GpuPod", "team-a", name)
        self.cache.put(key, {"metadata": metadata, "spec": {"accountRef": REF}, "status": status})

    def asks(self, key: ObjectKey, need: Commitment, budget: AccountBudget | None) -> str:
        """What it is told, after a look at the account under this budget."""
        if self._looked != (budget, self.burn):
            self.look(budget)
        return self.budgets.ask(key, age(key), account(budget), need)

    def plans(self, key: ObjectKey, need: Commitment, budget: AccountBudget | None) -> str:
        """The same of what is only planned."""
        if self._looked != (budget, self.burn):
            self.look(budget)
        return self.budgets.would_refuse(key, age(key), account(budget), need)

    def look(self, budget: AccountBudget | None) -> None:
        """What the cloud says: 1000 cents are available, and `burn` is paid an hour."""
        self._looked = (budget, self.burn)
        ready = account(budget)
        self.budgets.looked(ready, 1000, self.burn, self.budgets.paid(ready))

    def called(self) -> list[str]:
        """Names of those who are to look again."""
        names = list[str]()
        while len(self.queue):
            taken = asyncio.run(self.queue.take())
            self.queue.done(taken.key)
            names.append(taken.key.name)
        return names


def age(key: ObjectKey) -> Age:
    return Age(f"2026-03-01T12:00:{ord(key.name) - ord('a'):02}Z", f"u-{key.name}")


def account(budget: AccountBudget | None, organization: str = "org-1") -> AccountReady:
    cloud = Cloud("https://cloud.example", "k")
    return AccountReady(SHARED, cloud, organization, UnclaimedIds(), False, False, budget=budget)


def burn(cents: int) -> AccountBudget:
    return AccountBudget(max_burn_per_hour_cents=cents)


def each(**limits: int) -> SharedBudget:
    return SharedBudget(per_namespace=NamespaceBudget.model_validate(limits))
