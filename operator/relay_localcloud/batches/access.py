"""Who may use files and batches: a key with the scope `inference` of an organization with batch access."""

from typing import Annotated

from relay_localcloud.cloud import CurrentCloud
from relay_localcloud.http.arguments import Depends
from relay_localcloud.http.principal import Principal
from relay_localcloud.identity import organizations
from relay_localcloud.inference.callers import InferenceCaller
from relay_localcloud.inference.charges import require_funds
from relay_localcloud.inference.errors import NOT_FOUND, InferenceError


async def _with_access(caller: InferenceCaller, cloud: CurrentCloud) -> Principal:
    with cloud.store.transaction() as tx:
        if not organizations.organization(tx, caller.organization_id)["batch_access"]:
            raise InferenceError(*NOT_FOUND, "This organization has no access to batches.")
    return caller


BatchCaller = Annotated[Principal, Depends(_with_access)]


async def _with_funds(caller: BatchCaller, cloud: CurrentCloud) -> Principal:
    with cloud.store.transaction() as tx:
        require_funds(tx, caller.organization_id)
    return caller


PayingBatchCaller = Annotated[Principal, Depends(_with_funds)]
"""Also one whose available balance is not below the spending floor: 402 otherwise."""
