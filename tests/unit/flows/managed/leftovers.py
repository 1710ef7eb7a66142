"""What an account has in the cloud without an object, as the operator and its ConfigMaps record it."""

import json

from relay_operator.api.meta import ObjectKey
from relay_operator.engine.endpoints import Endpoints
from relay_operator.engine.leftover import Fate, Leftover, Reach
from tests.unit.engine.apiserver import part
from tests.unit.flows.managed.world import BEGINNING, NAMESPACE, World

ACCOUNT = ObjectKey("CloudAccount", NAMESPACE, "default")
KEY = ObjectKey("GpuPod", NAMESPACE, "train")


def leftover(fate: Fate, cloud_id: str = "pod-9", **said: str) -> Leftover:
    told = {"name": "its-name", "organization": "org-1", **said}
    return Leftover(fate=fate, kind="GpuPod", account=ACCOUNT, id=cloud_id, since=BEGINNING, **told)


def reach(organization: str = "org-1", account: ObjectKey = ACCOUNT, endpoint: str = "") -> Reach:
    """What an account sees whose two APIs are at the same place."""
    return Reach(account, organization, Endpoints(endpoint, endpoint))


def kept(world: World) -> list[tuple[Fate, str, str]]:
    """Fate, id and object of those that the account has."""
    return [(one.fate, one.id, one.of) for one in world.informer.vanished.leftovers.of(ACCOUNT)]


def written(world: World) -> list[tuple[str, str]]:
    """Fate and id as the ConfigMaps have them."""
    texts = [str(part(raw, "data")["resource.json"]) for raw in world.left_behind()]
    return [(record["fate"], record["id"]) for record in map(json.loads, texts)]
