"""What the request log shows of a body: every field, and the texts of those fields that never hold secrets."""

import json
from typing import Final

from pydantic import JsonValue

LARGEST: Final = 4 * 1024
"""Bytes of the largest body of which more than the size is kept."""
LONGEST: Final = 2_000
"""Characters that are kept."""

_LEFT_OUT: Final = "…"
_PLAIN: Final = frozenset(
    {
        *("name", "image", "imageUrl", "tier", "computeClass", "resourceSize", "preferredRegions", "kernelModules"),
        *("gpuModelId", "nodeId", "templateId", "registryCredentialId", "sshKeyId", "sshKeyIds", "healthChecks"),
        *("publicModelId", "servedModelId", "nodePool", "replicaRuntime", "rolloutRole", "status", "role", "scopes"),
        *("unitIds", "allowedOrgIds", "managingOrgIds", "startsAt", "endsAt", "defaultOrganizationId", "events"),
        *("authType", "provider", "transport", "nativeFamilies", "model", "input_file_id", "organizationId"),
        *("engine", "version", "dtype", "quantization", "engineImage", "rolloutStrategy"),
        *("completion_window", "idempotencyKey"),
    }
)
"""Top-level fields of a body whose texts are shown. Any other text may be a secret, or private."""


def showable(document: JsonValue) -> dict[str, JsonValue]:
    """The members of a body, with `…` in place of hidden texts."""
    members = document.items() if isinstance(document, dict) else ()
    return {name: _kept(value, plain=name in _PLAIN) for name, value in members}


def loggable(size: int, document: JsonValue) -> str:
    """A body of `size` bytes as the request log keeps it: JSON, shortened; for a large one only the size."""
    if size > LARGEST:
        return f"{_LEFT_OUT} ({size} bytes)"
    kept = json.dumps(showable(document), ensure_ascii=False)
    return kept if len(kept) <= LONGEST else f"{kept[:LONGEST]} {_LEFT_OUT}"


def _kept(value: JsonValue, *, plain: bool) -> JsonValue:
    match value:
        case str():
            return value if plain else _LEFT_OUT
        case dict():
            return {name: _kept(item, plain=False) for name, item in value.items()}
        case list():
            return [_kept(item, plain=plain) for item in value]
    return value
