"""Who may pass to a workload (section 5, "Workload endpoints")."""

import secrets
from collections.abc import Mapping
from typing import Final

from relay_localcloud.gateway.directory import Directory
from relay_localcloud.gateway.endpoints import Endpoint
from relay_localcloud.http.errors import ApiError

_API_KEY: Final = frozenset({"x-api-key"})
_ANY_KEY: Final = frozenset({"x-api-key", "authorization"})


def admit(endpoint: Endpoint, headers: Mapping[str, str], directory: Directory) -> frozenset[str]:
    """The headers that the gateway keeps to itself of a request that may pass.

    ApiError 401 without a valid key, 403 with one of another organization, 503 where the workload does not serve.
    """
    consumed = frozenset[str]() if endpoint.public else _check_key(endpoint, headers, directory)
    if endpoint.unready is not None:
        raise ApiError(
            503,
            f"The {endpoint.noun} {endpoint.workload_id} {endpoint.unready}: its endpoint answers while it runs.",
            "workload_not_running",
        )
    return consumed


def _check_key(endpoint: Endpoint, headers: Mapping[str, str], directory: Directory) -> frozenset[str]:
    key, consumed = _credential(headers)
    if not key:
        raise ApiError(
            401,
            f"The endpoint of this {endpoint.noun} is private: send an API key of its organization in a header, "
            "Authorization: Bearer <API key> or x-api-key: <API key>.",
        )
    token = endpoint.deploy_token
    if token is not None and key.isascii() and secrets.compare_digest(token, key):
        return consumed
    organization_id = directory.organization_of_key(key)
    if organization_id is None:
        raise ApiError(401, "This is no valid API key: it is unknown, revoked or expired.")
    if organization_id != endpoint.organization_id:
        raise ApiError(403, f"This {endpoint.noun} belongs to another organization than the API key.")
    return consumed


def _credential(headers: Mapping[str, str]) -> tuple[str, frozenset[str]]:
    """The key that was sent, the bearer token before `x-api-key`, and the headers that may carry keys."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return token.strip() or headers.get("x-api-key", "").strip(), _ANY_KEY
    # Authorization of another scheme is no key: it is the application's own, beside a key in x-api-key.
    return headers.get("x-api-key", "").strip(), _API_KEY
