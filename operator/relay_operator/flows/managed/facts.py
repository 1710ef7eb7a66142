"""Everything that is known of an object in one pass."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Generic

from relay_client.errors import CloudError
from relay_operator.api.meta import CreateIntent, ObjectKey, Resource
from relay_operator.api.workload import Former, SpecT, StatusT
from relay_operator.engine.account import AccountState, UsesAccount
from relay_operator.flows.managed.funding import UNLIMITED, Funded
from relay_operator.flows.managed.plan import View
from relay_operator.flows.managed.resource import Change, ExternalResource, Inputs, ObsT


@dataclass(frozen=True, slots=True)
class Facts(UsesAccount, Generic[SpecT, StatusT, ObsT]):
    """Gathered once; what follows is decided from it alone."""

    resource: ExternalResource[SpecT, StatusT, ObsT]
    key: ObjectKey
    obj: Resource[SpecT, StatusT]
    now: datetime
    account: AccountState
    view: View
    intent: CreateIntent | None = None
    """The annotation's, whether open or closed."""
    observed: ObsT | None = None
    error: CloudError | None = None
    """Why the cloud could not be looked at."""
    note: str = ""
    """The sentence that explains what was seen: differences, what is missing, what cannot be found out."""
    related: str = ""
    """The sentence about an object that this one refers to and has to wait for."""
    used: str = ""
    """The sentence about objects that refer to this one, and that it has to wait for."""
    change: Change | None = None
    """The first that would make it as asked."""
    former: Former | None = None
    """The one that was put aside and is to be ended, or is gone."""
    inputs: Inputs | None = None
    env_digest: str = ""
    """Of the Secrets and ConfigMaps as they are; empty if none are used or they were not read."""
    unanswered: int = 0
    """Looks in a row that the cloud did not answer, this one included."""
    exact: bool = True
    """Whether this very resource was read, and not a listing shared with others."""
    decided_in: float | None = None
    """Seconds until a look can tell what this one could not: whether something exists."""
    funded: Funded = UNLIMITED
    """What budgets say."""
    outdated: str = ""
    """Why nothing may be created, and what to do: a CRD is older than this release."""

    @property
    def ids(self) -> Mapping[ObjectKey, str]:
        """Cloud ids of what a create gives it."""
        return self.inputs.ids if self.inputs is not None else {}
