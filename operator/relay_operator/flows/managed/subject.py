"""An object in one pass, with the account that shows what it has in the cloud."""

from dataclasses import dataclass
from typing import Generic

from relay_operator.api.meta import ObjectKey, Resource
from relay_operator.api.workload import SpecT, StatusT
from relay_operator.engine.account import AccountReady
from relay_operator.engine.flow import Turn
from relay_operator.flows.managed.memory import ManagedMemory


@dataclass(frozen=True, slots=True)
class Subject(Generic[SpecT, StatusT]):
    """The object of one pass, the account to look with, and what is remembered of it."""

    turn: Turn
    obj: Resource[SpecT, StatusT]
    account: AccountReady
    memory: ManagedMemory

    @property
    def key(self) -> ObjectKey:
        return self.turn.key

    @property
    def endpoint(self) -> str:
        """The cloud that the account calls for objects of this kind."""
        return self.account.endpoints.of(self.key.kind)
