"""Everything that one pass knows of an object."""

from dataclasses import dataclass
from datetime import datetime
from typing import Generic

from relay_client.errors import CloudError
from relay_operator.api.meta import CreateIntent, Identity, ObjectKey, Resource
from relay_operator.api.workload import Former, SpecT, StatusT
from relay_operator.engine.account import AccountState, UsesAccount
from relay_operator.flows.managed.funding import UNLIMITED, Funded
from relay_operator.flows.managed.resource import NO_INPUTS, Change, ExternalResource, Inputs, ObsT
from relay_operator.flows.managed.shown_once import NOT_KEPT, Kept
from relay_operator.flows.managed.view import View


@dataclass(slots=True)  # not frozen, as `View`
class Facts(UsesAccount, Generic[SpecT, StatusT, ObsT]):
    """What a pass gathered; everything after is decided from it alone."""

    resource: ExternalResource[SpecT, StatusT, ObsT]
    key: ObjectKey
    obj: Resource[SpecT, StatusT]
    now: datetime
    account: AccountState
    view: View
    intent: CreateIntent | None = None
    """The intent in the annotation, open or closed; None if it is missing or unreadable."""
    observed: ObsT | None = None
    error: CloudError | None = None
    """Why the cloud could not be read; None if it could."""
    note: str = ""
    """The message about what was seen: differences, what is missing, or what cannot be found out."""
    related: str = ""
    """The message about an object that this one refers to, and has to wait for."""
    used: str = ""
    """The message about objects that refer to this one, and that it has to wait for."""
    change: Change | None = None
    """The first change towards the spec."""
    former: Former | None = None
    """The former resource that is to be ended, or that is gone."""
    serving: ObsT | None = None
    """The old resource that serves until the new one is Ready, as the cloud shows it; None if there is none."""
    inputs: Inputs = NO_INPUTS
    models: tuple[str, ...] = ()
    """The GPU models to try, in order; empty if the cloud chooses."""
    funded_since: bool = False
    """Whether the account had funds after it was stopped: the cloud keeps it, although the balance stopped it."""
    full: int = 0
    """The requests that the cloud refused for lack of room since the last resource; each moves on to the next model."""
    kept: Kept = NOT_KEPT
    """What was read of the Secret that keeps a value that is shown once."""
    env_digest: str = ""
    """Digest of the referenced Secrets and ConfigMaps; empty if there are none, or if they were not read."""
    unanswered: int = 0
    """Consecutive looks that the cloud did not answer, including this one."""
    exact: bool = True
    """Whether this very resource was read, not a shared list."""
    decided_in: float | None = None
    """Seconds until a look can tell what this one could not: whether the resource exists."""
    funded: Funded = UNLIMITED
    """What budgets say."""
    here: Identity | None = None
    """What status records of where the resource is, if it records something else; None if it need not be written."""
    outdated: str = ""
    """Why nothing may be created, and what to do, since a CRD is older than this release; empty if none is."""
