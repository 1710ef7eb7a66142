"""Answers to looks, from the present state. Only claims and new tokens change the state."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, assert_never

from relay_operator.api.meta import FINALIZER
from relay_operator.engine.cache import Cache
from tests.model import asked
from tests.model.asked import MISSING, Answer, Look
from tests.model.neighbours import ACCOUNT
from tests.model.objects import id_of, loaded, number_of

if TYPE_CHECKING:
    from relay_kube.kube import JsonObject
    from relay_operator.api.meta import ObjectKey
    from tests.model.state import State
    from tests.model.steps import World


def to(world: World, state: State, number: int, look: Look, *, lags: bool = False) -> tuple[Answer, State]:
    """Returns the answer and the state after it; with `lags`, the cloud's list lacks existing resources."""
    process = state.processes[number]
    match look:
        case asked.Resolve():
            return (state.organizations[process.cluster], world.config.adoption), state
        case asked.Observe() | asked.Find() | asked.Living() | asked.Listed() | asked.Billed():
            return _of_the_cloud(world, state, number, look, lags=lags), state
        case asked.Leads():
            return world.leads(state, number) or process.stopping or world.config.unguarded, state
        case asked.Token():
            return state.tokens, state._replace(tokens=state.tokens + 1)
        case asked.Read(key):
            return state.objects[world.slot_of(state, number, key)] or MISSING, state
        case asked.ReadMap(name):
            maps = {map_name: body for cluster, map_name, body in state.config_maps if cluster == process.cluster}
            return maps.get(name), state
        case asked.Working(key):
            return any(task.key == key for task in process.tasks), state
        case asked.Lookup() | asked.Claim() | asked.Unclaim():
            return _cached(world, state, number, look)
        case _ as never:
            assert_never(never)


def _of_the_cloud(
    world: World,
    state: State,
    number: int,
    look: asked.Observe | asked.Find | asked.Living | asked.Listed | asked.Billed,
    *,
    lags: bool,
) -> Answer:
    match look:
        case asked.Observe(cloud_id, organization):
            return _observed(state, number_of(cloud_id), organization)
        case asked.Find(name, organization):
            return asked.NOT_SEEN if lags else _found(world, state, number, name, organization)
        case asked.Living(organization):
            return _living(state, organization, None if world.config.lists else state.processes[number].hints)
        case asked.Listed(organization):
            there = (number for number, one in enumerate(state.resources, 1) if one.organization == organization)
            return tuple(_seen(state, number) for number in there)
        case asked.Billed(organization):
            return _living(state, organization, None)


def _cached(
    world: World, state: State, number: int, look: asked.Lookup | asked.Claim | asked.Unclaim
) -> tuple[Answer, State]:
    match look:
        case asked.Lookup(method, arguments, named):
            found = getattr(_cache(world, state, number), method)(*arguments, **dict(named))
            return tuple(found) if method == "items" else found, state
        case asked.Claim(cloud_id, key):
            taken = {other for other, claimed in state.processes[number].claims if claimed == cloud_id}
            holders = _cache(world, state, number).others(key, cloud_id) | (taken - {key})
            return holders, state if holders else _claimed(world, state, number, key, cloud_id)
        case asked.Unclaim(key):
            return None, _claimed(world, state, number, key, "")


def _observed(state: State, number: int, organization: int) -> asked.Seen | None:
    if not 0 < number <= len(state.resources) or state.resources[number - 1].organization != organization:
        return None
    return _seen(state, number)


def _seen(state: State, number: int) -> asked.Seen:
    resource = state.resources[number - 1]
    lives = "failed" if resource.failed else "running" if resource.running else "stopped"
    status = "terminated" if not resource.alive else lives if resource.ready or resource.failed else "deploying"
    return asked.Seen(id_of(number), resource.name, status, resource.replicas)


def _found(world: World, state: State, number: int, name: str, organization: int) -> Answer:
    """Finds a living resource by the list, or without a list among the ids from webhooks."""
    hints = state.processes[number].hints
    for place, resource in enumerate(state.resources, 1):
        there = resource.alive and (resource.name, resource.organization) == (name, organization)
        if there and (world.config.lists or place in hints):
            return _seen(state, place)
    return asked.NOT_SEEN if world.config.lists else asked.CANNOT_TELL


def _cache(world: World, state: State, number: int) -> Cache:
    """Returns the process's cache: a real one, with its vanished objects."""
    process, cached = state.processes[number], world.cached(state, number)
    there = [(world.keys[slot], body) for slot in world.slots(process.cluster) if (body := cached[slot]) is not None]
    return _filled((*there, *sorted((one.key, one.body) for one in process.books.departed)))


def _living(state: State, organization: int, told: frozenset[int] | None) -> tuple[tuple[str, str], ...]:
    """Returns id and name of each living resource of the organization; of those with a number in `told`, if given."""
    there = ((number, one) for number, one in enumerate(state.resources, 1) if told is None or number in told)
    return tuple((id_of(n), one.name) for n, one in there if one.alive and one.organization == organization)


@lru_cache(maxsize=10_000)
def _filled(bodies: tuple[tuple[ObjectKey, bytes], ...]) -> Cache:
    cache = Cache()
    named: JsonObject = {"name": ACCOUNT.name, "namespace": ACCOUNT.namespace, "finalizers": [FINALIZER]}
    cache.put(ACCOUNT, {"kind": ACCOUNT.kind, "metadata": named})
    for key, body in bodies:
        cache.put(key, loaded(body))
    return cache


def _claimed(world: World, state: State, number: int, key: ObjectKey, cloud_id: str) -> State:
    claims = [one for one in state.processes[number].claims if one[0] != key]
    if cloud_id:
        claims.append((key, cloud_id))
    return world.process(state, number, claims=tuple(sorted(claims)))
