"""What is behind a model: the built-in engine, real servers that an organization registered, deployments.

A model is there for an organization that has a backend for it; the built-in ones are there for all, and so are the
deployments of those.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from relay_localcloud.inference.errors import MODEL_NOT_FOUND, UNSUPPORTED_API, InferenceError
from relay_localcloud.kernel.instants import SECOND, timestamp
from relay_localcloud.kernel.store import Tx
from relay_localcloud.models.backends import BACKENDS, Server
from relay_localcloud.models.built_in import BUILT_IN, BuiltInModel
from relay_localcloud.serving import traffic
from relay_localcloud.serving.traffic import Published
from relay_wire.inference import Family

_BUILT_IN_SINCE: Final = 1_767_225_600 * SECOND  # 2026-01-01


@dataclass(frozen=True, slots=True)
class Model:
    """What may answer for a model in one family: servers and deployments, oldest first, and the built-in engine."""

    id: str
    servers: Sequence[Server]
    built_in: BuiltInModel | None
    deployments: Sequence[Published] = ()

    @property
    def is_local(self) -> bool:
        """Whether the built-in engine answers: it is the head of the overflow tail, and never at capacity."""
        return self.built_in is not None and not any(
            (*(server.weight for server in self.servers), *(each.weight for each in self.deployments))
        )


def find_model(tx: Tx, organization_id: str, model_id: str, family: Family) -> Model:
    """The model as it serves the family; InferenceError 404 model_not_found, 400 unsupported_api."""
    behind = [row.server for row in BACKENDS.all(tx, organization_id=organization_id, model_id=model_id)]
    built_in = BUILT_IN.get(model_id)
    published = traffic.behind(tx, organization_id if built_in is None else "", model_id)
    if built_in is None and not behind and not published:
        raise InferenceError(*MODEL_NOT_FOUND, f"There is no model {model_id!r}; GET /v1/models lists what there is.")
    servers = [server for server in behind if family.api in server.apis]
    deployments = [each for each in published if family.api in each.apis]
    if built_in is not None and family not in built_in.families:
        built_in = None
    if built_in is None and not servers and not deployments:
        raise InferenceError(*UNSUPPORTED_API, f"The model {model_id!r} does not serve {family.api}.")
    return Model(model_id, servers, built_in, deployments)


def listed(tx: Tx, organization_id: str) -> list[dict[str, Any]]:
    """The built-in models, then those that the organization registered a server for or deployed, oldest first."""
    apis = {model.id: {family.api for family in model.families} for model in BUILT_IN.values()}
    since = dict.fromkeys(apis, _BUILT_IN_SINCE)
    for row in BACKENDS.all(tx, organization_id=organization_id):
        apis.setdefault(row.model_id, set()).update(row.native_families)
        since.setdefault(row.model_id, row.created_at)
    for each in (*traffic.of_built_in_models(tx), *traffic.of_organization(tx, organization_id)):
        apis.setdefault(each.model_id, set()).update(each.apis)
        since.setdefault(each.model_id, each.created_at)
    return [_shown(model_id, served, since[model_id]) for model_id, served in apis.items()]


def _shown(model_id: str, apis: set[str], since: int) -> dict[str, Any]:
    """As both client libraries read it."""
    # `object`, `created` and `owned_by` are OpenAI's; `type`, `display_name` and `created_at` are Anthropic's.
    return {
        "id": model_id,
        "object": "model",
        "created": since // SECOND,
        "owned_by": "relay",
        "supported_apis": [family.api for family in Family if family.api in apis],
        "type": "model",
        "display_name": model_id,
        "created_at": timestamp(since),
    }
