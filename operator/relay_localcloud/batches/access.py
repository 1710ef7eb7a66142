"""Who may use files and batches: a key with the scope `inference` of an organization with batch access."""

from typing import Annotated

from fastapi import Depends

from relay_localcloud import organizations
from relay_localcloud.cloud import CurrentCloud
from relay_localcloud.identity import Principal
from relay_localcloud.inference.callers import InferenceCaller
from relay_localcloud.inference.errors import NOT_FOUND, InferenceError


async def _with_access(caller: InferenceCaller, cloud: CurrentCloud) -> Principal:
    with cloud.store.transaction() as tx:
        if not organizations.organization(tx, caller.organization_id)["batch_access"]:
            raise InferenceError(*NOT_FOUND, "This organization has no access to batches.")
    return caller


BatchCaller = Annotated[Principal, Depends(_with_access)]
