"""What all flows are made from."""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from relay_operator.accounts.accounts import Accounts
from relay_operator.engine.confirmation import ConfirmationDelays
from relay_operator.engine.controller import Engine
from relay_operator.flows.batch.transfers import Transfers
from relay_operator.objectstores.stores import ObjectStores
from relay_operator.observability.metrics import Metrics
from relay_operator.settings import Settings


@dataclass(frozen=True, slots=True)
class Parts:
    """One process's."""

    settings: Settings
    engine: Engine
    accounts: Accounts
    metrics: Metrics
    stores: ObjectStores
    transfers: Transfers
    leading: Callable[[], bool]
    """Whether this replica may still send something that is paid for."""
    plurals: Mapping[str, str]
    """By kind, of those that use accounts."""

    @property
    def delays(self) -> ConfirmationDelays:
        settings = self.settings
        return ConfirmationDelays(
            absence=settings.absence_seconds, newborn=settings.newborn_seconds, search=settings.search_seconds
        )

    def new_token(self) -> str:
        """Unlike any other."""
        return secrets.token_hex(16)
