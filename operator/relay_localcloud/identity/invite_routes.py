"""Accepting an invite; the control interface sends them."""

from typing import Annotated

from starlette.responses import Response

from relay_localcloud.cloud import CurrentCloud
from relay_localcloud.http.arguments import Path
from relay_localcloud.http.bodies import answer
from relay_localcloud.http.openapi import ASSUMED
from relay_localcloud.http.principal import SessionUser
from relay_localcloud.http.routing import Router
from relay_localcloud.identity import invites
from relay_wire.account import Joined

router = Router("Organizations")


@router.post("/v1/invites/{token}/accept", response_model=Joined, summary="Accept an invite", openapi_extra=ASSUMED)
async def accept_invite(user_id: SessionUser, token: Annotated[str, Path()], cloud: CurrentCloud) -> Response:
    """Sessions only. 410 for an invite that expired or was used, 409 for who is a member already."""
    with cloud.store.transaction() as tx:
        organization_id, role = invites.accept(tx, token, user_id)
    return answer(Joined(organization_id=organization_id, role=role))
