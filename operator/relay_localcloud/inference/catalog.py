"""The backends of a model: the built-in engine, servers that an organization registered, deployments.

A model exists for an organization that has a backend for it or deploys it. For others, the backends of an
administrator's organization answer for it. The built-in models exist for all.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from relay_localcloud.identity import organizations
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
    """The backends of a model in one family: servers and deployments, oldest first, and the built-in engine."""

    id: str
    servers: Sequence[Server]
    built_in: BuiltInModel | None
    deployments: Sequence[Published] = ()
    is_own: bool = True
    """Whether the servers and deployments belong to the calling organization, which may learn which of them answers."""

    @property
    def is_local(self) -> bool:
        """Whether the built-in engine answers: it comes first in the overflow tail, and is never at capacity."""
        return self.built_in is not None and not any(
            (*(server.weight for server in self.servers), *(each.weight for each in self.deployments))
        )


def find_model(tx: Tx, organization_id: str, model_id: str, family: Family) -> Model:
    """The model for a request of the family; InferenceError 404 model_not_found, 400 unsupported_api."""
    owner_id, behind, published = _behind(tx, organization_id, model_id)
    built_in = BUILT_IN.get(model_id)
    if built_in is None and not behind and not published:
        raise InferenceError(*MODEL_NOT_FOUND, f"There is no model {model_id!r}; GET /v1/models lists what there is.")
    servers = [server for server in behind if family.api in server.apis]
    deployments = [each for each in published if family.api in each.apis]
    if built_in is not None and family not in built_in.families:
        built_in = None
    if built_in is None and not servers and not deployments:
        raise InferenceError(*UNSUPPORTED_API, f"The model {model_id!r} does not serve {family.api}.")
    return Model(model_id, servers, built_in, deployments, is_own=owner_id == organization_id)


def _owners(tx: Tx, organization_id: str) -> list[str]:
    """The organizations whose models this one may use: itself before administrators."""
    return list(dict.fromkeys((organization_id, *organizations.administrators(tx))))


def _behind(tx: Tx, organization_id: str, model_id: str) -> tuple[str, list[Server], list[Published]]:
    """The first owner with backends for the model, and these; the organization itself if nobody has any."""
    for owner_id in _owners(tx, organization_id):
        servers = [row.server for row in BACKENDS.all(tx, organization_id=owner_id, model_id=model_id)]
        published = traffic.behind(tx, owner_id, model_id)
        if servers or published:
            return owner_id, servers, published
    return organization_id, [], []


def listed(tx: Tx, organization_id: str) -> list[dict[str, Any]]:
    """The built-in models, then those for which the organization or an administrator's has a backend."""
    apis = {model.id: {family.api for family in model.families} for model in BUILT_IN.values()}
    since = dict.fromkeys(apis, _BUILT_IN_SINCE)
    claimed: set[str] = set()
    for owner_id in _owners(tx, organization_id):
        of_owner = [each for each in _served(tx, owner_id) if each[0] not in claimed]
        for model_id, families, created_at in of_owner:
            apis.setdefault(model_id, set()).update(families)
            since.setdefault(model_id, created_at)
        claimed.update(model_id for model_id, _, _ in of_owner)
    return [_shown(model_id, served, since[model_id]) for model_id, served in apis.items()]


def _served(tx: Tx, owner_id: str) -> Iterator[tuple[str, Iterable[str], int]]:
    """An owner's backends: for each, the model, the families, and when it was created."""
    for row in BACKENDS.all(tx, organization_id=owner_id):
        yield row.model_id, row.native_families, row.created_at
    for each in traffic.of_organization(tx, owner_id):
        yield each.model_id, each.apis, each.created_at


def _shown(model_id: str, apis: set[str], since: int) -> dict[str, Any]:
    """The model in a form that both client libraries read."""
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
