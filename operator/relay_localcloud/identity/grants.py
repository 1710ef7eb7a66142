"""Who may grant which role: nobody above their own, and only owners may change owners (assumed)."""

from relay_localcloud.http.errors import ApiError
from relay_localcloud.http.principal import SCOPES_OF_ROLE, Principal


def require_may_change(caller: Principal, organization_id: str, had: str | None, gets: str | None) -> None:
    """Refuse with 403 a change from one role to another that the caller may not grant; None: not a member."""
    if "owner" in (had, gets) and caller.role_in(organization_id) != "owner":
        raise ApiError(403, "Only an owner's session makes owners, changes their role and removes them.")
    beyond = _scopes(gets).difference(_scopes(had), caller.scopes)
    if beyond:
        raise ApiError(403, f"role: {gets} comes with {min(beyond)}, which the caller does not have.")


def _scopes(role: str | None) -> frozenset[str]:
    return frozenset(() if role is None else SCOPES_OF_ROLE[role])
