"""API keys (section 4, "API keys"): an owner's or admin's session, or a key with `org:write` (assumed)."""

from relay_localcloud.http.bodies import Answer, Body
from relay_localcloud.http.errors import ApiError, not_found
from relay_localcloud.http.names import require_name
from relay_localcloud.http.principal import SCOPES, OrganizationId, OrganizationWriter, Principal, ResourceId
from relay_localcloud.http.routing import Router
from relay_localcloud.identity import credentials
from relay_localcloud.identity.credentials import KEYS, ApiKey
from relay_localcloud.kernel.instants import timestamp
from relay_localcloud.kernel.rows import shown
from relay_localcloud.kernel.store import Tx
from relay_localcloud.quotas import quotas
from relay_wire.api_keys import ApiKeyCreate, ApiKeyCreated, ApiKeySummary

router = Router("API keys")


@router.post("/v1/orgs/{orgId}/api-keys/create", summary="Create an API key")
def create_api_key(
    caller: OrganizationWriter, organization_id: OrganizationId, body: Body[ApiKeyCreate], tx: Tx
) -> ApiKeyCreated:
    """Answers the plaintext key, once. 403 for a key that makes one with more scopes, or one that outlives it."""
    require_name(body.name)
    scopes = granted_scopes(caller, body.scopes)
    expires_at = credentials.expiry(tx.now, body.expires_in_seconds)
    _require_shorter_life(caller, expires_at)
    quotas.require(tx, organization_id, {quotas.API_KEYS: 1})
    key, plaintext = credentials.create_key(tx, organization_id, body.name, scopes, expires_at)
    return ApiKeyCreated.model_validate({**shown(key), "key": plaintext})


@router.get("/v1/orgs/{orgId}/api-keys", response_model=list[ApiKeySummary], summary="List API keys")
def list_api_keys(_: OrganizationWriter, organization_id: OrganizationId, tx: Tx) -> Answer:
    """Answers a bare array, oldest first, revoked keys included."""
    return [summary(key) for key in KEYS.all(tx, organization_id=organization_id)]


@router.delete("/v1/orgs/{orgId}/api-keys/{id}", summary="Revoke an API key")
def revoke_api_key(_: OrganizationWriter, organization_id: OrganizationId, key_id: ResourceId, tx: Tx) -> None:
    """The key stops authenticating at once; revoking it again changes nothing."""
    key = KEYS.find(tx, id=key_id, organization_id=organization_id)
    if key is None:
        raise not_found("API key", key_id)
    if key.revoked_at is None:
        KEYS.change(tx, key_id, revoked_at=tx.now)
        credentials.REVOKED.one_ended(tx)


def granted_scopes(creator: Principal, scopes: list[str] | None) -> list[str]:
    """The scopes of a key that this caller creates, as it names them, without repetitions; by default its own.

    ApiError 400 for unknown scopes, 403 for scopes that the creator lacks.
    """
    wanted = list(creator.scopes if scopes is None else dict.fromkeys(scopes))
    unknown = [scope for scope in wanted if scope not in SCOPES]
    if unknown:
        raise ApiError(400, f"scopes: there is no scope {unknown[0]!r}; there are {', '.join(SCOPES)}.")
    beyond = [scope for scope in wanted if scope not in creator.scopes]
    if beyond:
        raise ApiError(403, f"scopes: {beyond[0]} is more than the caller has.")
    return wanted


def _require_shorter_life(creator: Principal, expires_at: int | None) -> None:
    """Refuse with 403 a key that would outlive the key that creates it (assumed)."""
    if creator.expires_at is not None and (expires_at is None or expires_at > creator.expires_at):
        raise ApiError(
            403,
            f"expiresInSeconds: this key expires at {timestamp(creator.expires_at)} and makes no key that outlives it: "
            "give fewer seconds, or use another key.",
        )


def summary(key: ApiKey) -> ApiKeySummary:
    """A key as lists show it."""
    return ApiKeySummary.model_validate(shown(key))
