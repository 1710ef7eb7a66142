"""Who the caller is (section 4, "Account and identity")."""

from fastapi import APIRouter, Response

from relay_localcloud import organizations
from relay_localcloud.bodies import answer
from relay_localcloud.cloud import CurrentCloud
from relay_localcloud.identity import SCOPES, Anyone
from relay_wire.account import Whoami

router = APIRouter(tags=["Account and identity"])


@router.get("/v1/whoami", response_model=Whoami, summary="Who the caller is")
async def whoami(caller: Anyone, cloud: CurrentCloud) -> Response:
    """Needs no scope and works for every key (section 5, rule 5)."""
    with cloud.store.transaction() as tx:
        name = organizations.name_of(tx, caller.organization_id)
    return answer(
        Whoami(
            principal_type=caller.kind,
            organization_id=caller.organization_id,
            organization_name=name,
            scopes=[scope for scope in SCOPES if scope in caller.scopes],
        )
    )
