"""The models that a caller may use, as both client libraries read them."""

import json
from typing import Any, Final

from relay_localcloud.kernel.instants import SECOND, timestamp
from relay_localcloud.kernel.store import Tx
from relay_localcloud.models.backends import rows_of
from relay_localcloud.models.built_in import BUILT_IN
from relay_localcloud.serving import traffic
from relay_wire.inference import Family

_BUILT_IN_SINCE: Final = 1_767_225_600 * SECOND  # 2026-01-01
_APIS: Final = tuple(family.api for family in Family)


def listed(tx: Tx, organization_id: str) -> list[dict[str, Any]]:
    """The built-in models, then those that the organization registered a server for or deployed, oldest first."""
    apis = {model.id: {family.api for family in model.families} for model in BUILT_IN.values()}
    since = dict.fromkeys(apis, _BUILT_IN_SINCE)
    for row in rows_of(tx, organization_id):
        apis.setdefault(row["model_id"], set()).update(json.loads(row["native_families"]))
        since.setdefault(row["model_id"], row["created_at"])
    for each in (*traffic.of_built_in_models(tx), *traffic.of_organization(tx, organization_id)):
        apis.setdefault(each.model_id, set()).update(each.apis)
        since.setdefault(each.model_id, each.created_at)
    return [_shown(model_id, served, since[model_id]) for model_id, served in apis.items()]


def _shown(model_id: str, apis: set[str], since: int) -> dict[str, Any]:
    # `object`, `created` and `owned_by` are OpenAI's; `type`, `display_name` and `created_at` are Anthropic's.
    return {
        "id": model_id,
        "object": "model",
        "created": since // SECOND,
        "owned_by": "relay",
        "supported_apis": [api for api in _APIS if api in apis],
        "type": "model",
        "display_name": model_id,
        "created_at": timestamp(since),
    }
