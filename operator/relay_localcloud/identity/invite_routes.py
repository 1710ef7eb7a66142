"""Accepting an invite; the control interface sends them."""

from typing import Annotated

from relay_localcloud.http.arguments import Path
from relay_localcloud.http.openapi import ASSUMED
from relay_localcloud.http.principal import SessionUser
from relay_localcloud.http.routing import Router
from relay_localcloud.identity import invites
from relay_localcloud.kernel.store import Tx
from relay_wire.account import Joined

router = Router("Organizations")


@router.post("/v1/invites/{token}/accept", summary="Accept an invite", openapi_extra=ASSUMED)
def accept_invite(user_id: SessionUser, token: Annotated[str, Path()], tx: Tx) -> Joined:
    """Sessions only. 410 for an invite that expired or was used, 409 for who is a member already."""
    organization_id, role = invites.accept(tx, token, user_id)
    return Joined(organization_id=organization_id, role=role)
