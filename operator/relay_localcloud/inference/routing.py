"""Which backend of a model answers a request (section 2, "Inference catalog backend" and "Serving deployment"): pure.

A replica gets requests at `/v1/chat/completions` or `/v1/messages`, for the deployment's `servedModelId`: at its own
address where containers run, and elsewhere below the URL of the server that represents its `engineImage`, which
`POST /_localcloud/upstreams {image, url}` sets.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from relay_localcloud.inference.catalog import Model
from relay_localcloud.models.backends import Server
from relay_localcloud.models.built_in import BOTH, BUILT_IN, BuiltInModel
from relay_localcloud.runtimes.runtime import Way
from relay_localcloud.serving.traffic import Published

DEPLOYMENT_HEADER = "x-relay-deployment"
REPLICA_HEADER = "x-relay-replica"
"""Response headers of the local cloud that name the deployment that answered, and its replica."""


@dataclass(frozen=True, slots=True)
class Turn:
    """The turn of a replica of a deployment."""

    deployment: Published
    replica_id: str

    @property
    def behind(self) -> Server | BuiltInModel:
        """Without containers: the server that represents its image; else the built-in model, or the echo."""
        url = self.deployment.replicas[self.replica_id]
        if url is None:
            return BUILT_IN.get(self.deployment.model_id) or BuiltInModel(self.deployment.model_id, BOTH)
        return self._server(url.rstrip("/").removesuffix("/v1"))

    def at(self, way: Way) -> Server:
        """The container of the replica."""
        return self._server(way.url, way)

    def _server(self, url: str, way: Way | None = None) -> Server:
        its, ref = self.deployment, self.deployment.served_model_id
        return Server(self.replica_id, ref, f"{url}/v1", its.apis, "none", its.weight, its.cap, way=way)

    @property
    def headers(self) -> dict[str, str]:
        """The headers that name the replica."""
        return {DEPLOYMENT_HEADER: self.deployment.id, REPLICA_HEADER: self.replica_id}


Chosen = Server | BuiltInModel | Turn


def choose(model: Model, under_way: Mapping[str, int], draw: float, prompt_bytes: int = 0) -> Chosen | None:
    """Choose by weight among backends with room, else from the overflow tail; None if all capacity is in use.

    `under_way` counts requests by server and replica id; `draw` is uniform in [0, 1). Deployments accept prompts within
    the bounds of their lane. The tail has the backends of weight 0: first the standby of lanes whose weighted members
    are full, then the built-in engine, which always has room, then servers in the order of registration, then other
    standby. A green without weight gets nothing.
    """
    servers = [server for server in model.servers if _has_room(server, under_way)]
    taking = [each for each in model.deployments if each.lane.takes(prompt_bytes)]
    turns = list(_turns(taking, under_way))
    weighted = [server for server in servers if server.weight], [turn for turn in turns if turn.deployment.weight]
    if any(weighted):
        return _drawn(*weighted, draw)
    full = {each.lane for each in taking if each.weight}
    standby = [turn for turn in turns if not turn.deployment.is_green]
    relief = next((turn for turn in standby if turn.deployment.lane in full), None)
    tail: list[Chosen | None] = [relief, model.built_in, *servers, *standby]
    return next((each for each in tail if each is not None), None)


def _has_room(server: Server, under_way: Mapping[str, int]) -> bool:
    return not server.max_concurrency or under_way.get(server.id, 0) < server.max_concurrency


def _turns(taking: Sequence[Published], under_way: Mapping[str, int]) -> Iterator[Turn]:
    for deployment in taking:
        replica_id = deployment.free_replica(under_way)
        if replica_id is not None:
            yield Turn(deployment, replica_id)


def _drawn(servers: Sequence[Server], turns: Sequence[Turn], draw: float) -> Server | Turn:
    shares: list[tuple[int, Server | Turn]] = [(server.weight, server) for server in servers]
    shares += [(turn.deployment.weight, turn) for turn in turns]
    place = draw * sum(weight for weight, _ in shares)
    for weight, each in shares:
        place -= weight
        if place < 0:
            return each
    return shares[-1][1]
