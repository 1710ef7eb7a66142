"""Which server of a model answers a request (section 2, "Inference catalog backend"): pure."""

from collections.abc import Mapping, Sequence

from relay_localcloud.inference.backends import Model, Server
from relay_localcloud.inference.models import BuiltInModel


def choose(model: Model, under_way: Mapping[str, int], draw: float) -> Server | BuiltInModel | None:
    """A server by its weight among those with room; else the overflow tail; None where all capacity is in use.

    `under_way` counts requests by server id; `draw` is uniform in [0, 1). The tail is what has weight 0: the built-in
    engine, which has room always, then servers in the order in which they were registered.
    """
    with_room = [server for server in model.servers if _has_room(server, under_way)]
    weighted = [server for server in with_room if server.weight]
    if weighted:
        return _drawn(weighted, draw)
    return model.built_in or next(iter(with_room), None)


def _has_room(server: Server, under_way: Mapping[str, int]) -> bool:
    return not server.max_concurrency or under_way.get(server.id, 0) < server.max_concurrency


def _drawn(weighted: Sequence[Server], draw: float) -> Server:
    place = draw * sum(server.weight for server in weighted)
    for server in weighted:
        place -= server.weight
        if place < 0:
            return server
    return weighted[-1]
