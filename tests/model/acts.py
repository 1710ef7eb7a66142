"""Faults, and acts of people. Each function yields, for every way it can happen, a description and the state after."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from pydantic import JsonValue

from relay_operator.api.meta import ABANDON, ADOPT_ID, CREATE_INTENT, FINALIZER, RETRY_CREATE
from tests.model.asked import NO_ANSWER, REJECTED, Begin, Drop, Patch, Save
from tests.model.memories import aged, searching
from tests.model.objects import MOMENT, Known, changed, id_of, known, loaded, merged, stored, uid_of
from tests.model.state import NOBODY, Books, State, Task, put

if TYPE_CHECKING:
    from tests.model.steps import Move, World

After = Iterator[tuple[str, State]]
Act = Callable[["World", State], After]


# -- processes, network, cloud ---------------------------------------------------------------------------------------


def crash(world: World, state: State) -> After:
    for number, process in enumerate(state.processes):
        if process.led and (process.tasks or process.memory or process.hints or process.books != Books()):
            yield f"the {world.role(state, number)} crashes", world.end_process(state, number)


def depose(_: World, state: State) -> After:
    for cluster, holder in enumerate(state.leases):
        if holder != NOBODY and state.processes[holder].tasks:
            yield "the leader freezes; its Lease runs out", state._replace(leases=put(state.leases, cluster, NOBODY))


def stop_old(world: World, state: State) -> After:
    """SIGTERM: the leader releases the Lease after its last pass; with `hasty`, at once."""
    for cluster, holder in enumerate(state.leases):
        if holder != NOBODY and (not state.processes[holder].tasks or world.config.hasty):
            after = state._replace(leases=put(state.leases, cluster, NOBODY))
            yield "the leader is told to stop and gives its Lease back", world.process(after, holder, stopping=True)


def lag(world: World, state: State) -> After:
    for number, process in enumerate(state.processes):
        if process.led and process.cache is None:
            label = f"the {world.role(state, number)}'s watch falls behind"
            yield label, world.process(state, number, cache=state.objects)


def give_up(world: World, state: State) -> After:
    """The client times out before the cloud acts."""
    for place, request in enumerate(state.requests):
        if request.sender != NOBODY:
            after = state._replace(requests=put(state.requests, place, request._replace(sender=NOBODY)))
            task = world.waiting(state, request)
            yield "the create times out, still in flight", world.answered(after, request.sender, task, NO_ANSWER)


def lose_answer(world: World, state: State) -> After:
    for place, request in enumerate(state.requests):
        if request.sender != NOBODY:
            number, after = world.acted(state, place)
            lost = world.answered(after, request.sender, world.waiting(state, request), NO_ANSWER)
            yield f"the cloud acts, and the answer that made #{number} is lost", lost


def reject(world: World, state: State) -> After:
    for place, request in enumerate(state.requests):
        if request.sender != NOBODY:
            after = state._replace(requests=state.requests[:place] + state.requests[place + 1 :])
            task = world.waiting(state, request)
            yield "the cloud rejects the create", world.answered(after, request.sender, task, REJECTED)


def lose_write(world: World, state: State) -> After:
    """A write, or a change in the cloud, succeeds, and its answer is late, or lost."""
    for number, process in enumerate(state.processes):
        for task in process.tasks:
            move = None if task.waiting else _held(world, state, number, task)
            if move is not None and not move.broken and _stored(move.state) != _stored(state):
                yield f"{move.label}, and the answer to that is held up", move.state


def _held(world: World, state: State, number: int, task: Task) -> Move | None:
    """Returns the step in which the pass does its next deed and waits for the answer; None for a question."""
    match deed := world.passes.nodes[task.node].asks:
        case Patch():
            return world.patch(state, number, task, deed, held=True)
        case Save() | Drop():
            return world.config_map(state, number, task, deed, held=True)
        case Begin():
            return world.guarded(state, number, task, held=True)
        case _:
            return None


def _stored(state: State) -> tuple[object, ...]:
    """Returns what the API server and the cloud store."""
    return state.objects, state.config_maps, state.resources


def refuse(_: World, state: State) -> After:
    """An admission policy, or a limit of size, refuses each status with an id from now on."""
    if not state.refuses:
        yield "from now on the API server refuses ids", state._replace(refuses=True)


def late(world: World, state: State) -> After:
    """Absence counts although the cloud has yet to act on the create."""
    for number, process in enumerate(state.processes):
        for key, memory in process.memory:
            if searching(memory) and world.in_flight(state, dict(memory)["uid"]):
                after = world.remember(state, number, key, aged(memory, search=True))
                label = "the time for absence passes with the create still in flight"
                yield label, after._replace(excused=True)


def list_lag(world: World, state: State) -> After:
    """The cloud's list lacks what exists."""
    for number, process in enumerate(state.processes):
        if not world.leads(state, number) or process.tasks:
            continue
        for slot in world.slots(process.cluster):
            body = world.cached(state, number)[slot]
            if body is not None:
                how = " (the cloud's list lags)"
                plain = {move.state for move in world.begin(state, number, world.keys[slot], body)}
                for move in world.begin(state, number, world.keys[slot], body, lags=True, how=how):
                    if move.state not in plain:
                        yield move.label, move.state._replace(excused=True)


def lose_webhook(_: World, state: State) -> After:
    for number in state.webhooks:
        yield f"the webhook of #{number} is lost", state._replace(webhooks=state.webhooks - {number})


def end_outside(world: World, state: State) -> After:
    for number, resource in enumerate(state.resources, 1):
        if resource.alive:
            ended = world.resource(state, number, resource._replace(alive=False))
            yield f"somebody ends #{number} in the cloud's console", ended


def fail(world: World, state: State) -> After:
    for number, resource in enumerate(state.resources, 1):
        if resource.alive and not (resource.ready or resource.failed):
            yield f"#{number} fails to come up", world.resource(state, number, resource._replace(failed=True))


# -- people ----------------------------------------------------------------------------------------------------------


def _objects(state: State) -> list[tuple[int, bytes, Known]]:
    return [(slot, body, known(body)) for slot, body in enumerate(state.objects) if body is not None]


def _with(state: State, slot: int, body: bytes | None) -> State:
    return state._replace(objects=put(state.objects, slot, body))


def _annotated(body: bytes, name: str, value: str | None) -> bytes:
    return changed(body, {"metadata": {"annotations": {name: value}}})


def _made(state: State, name: str, slot: int, body: bytes, change: Mapping[str, JsonValue]) -> State:
    """Returns the state with a new object from another's text, as `kubectl apply` or a backup tool creates it."""
    fresh: JsonValue = {"name": name, "uid": uid_of(name, state.uids), "generation": 1, "deletionTimestamp": None}
    raw = merged(merged(loaded(body), {"metadata": fresh}), change)
    return _with(state, slot, stored(raw))._replace(uids=state.uids + 1)


def delete(world: World, state: State) -> After:
    for slot, body, own in _objects(state):
        if not own.deleting:
            going = changed(body, {"metadata": {"deletionTimestamp": MOMENT}})
            after = _with(state, slot, going) if own.held else world.gone(_with(state, slot, None), slot, going)
            yield f"{world.name(slot)} is deleted", after


def vanish(world: World, state: State) -> After:
    """An object is deleted at the moment its finalizer is written, so that nothing holds it."""
    for slot, body, own in _objects(state):
        watched = state.leases[world.config.clusters[slot]] != NOBODY
        if own.held and not own.deleting and (watched or not (own.id or own.is_open)):
            after = world.gone(_with(state, slot, None), slot, body)
            yield f"{world.name(slot)} is deleted as its finalizer is written, and goes at once", after


def _forced(world: World, state: State, slot: int, body: bytes) -> State:
    going = changed(body, {"metadata": {"deletionTimestamp": MOMENT, "finalizers": None}})
    return world.gone(_with(state, slot, None), slot, going)


def force(world: World, state: State) -> After:
    """An object is deleted and its finalizer removed."""
    for slot, body, _ in _objects(state):
        label = f"{world.name(slot)} is deleted and its finalizer taken off by force"
        yield label, _forced(world, state, slot, body)


def replace_object(world: World, state: State) -> After:
    """An object is forced away and a namesake created, in one act."""
    for slot, body, own in _objects(state):
        bare: dict[str, JsonValue] = {"metadata": {"annotations": None, "finalizers": None}, "status": None}
        after = _made(_forced(world, state, slot, body), world.config.names[slot], slot, body, bare)
        yield f"{world.name(slot)} is forced away and a namesake made ({uid_of(own.name, state.uids)})", after


def copy(world: World, state: State) -> After:
    body = state.objects[0]
    if body is not None and state.objects[1] is None:
        label = f"{world.name(0)} is copied to {world.name(1)} with status and annotations"
        yield label, _made(state, world.config.names[1], 1, body, {})


def restore(world: World, state: State) -> After:
    """The cluster is rebuilt: the object returns with another UID, with or without its status."""
    body = state.objects[0]
    if body is not None:
        for words, change in (("with its status", {}), ("without its status", {"status": None})):
            lost = (
                world.gone(_with(state, 0, None), 0, body)
                if "deletion" in body.decode()
                else _forced(world, state, 0, body)
            )
            after = _made(lost, world.config.names[0], 0, body, change)._replace(excused=True)
            yield f"{world.name(0)} is lost and restored {words} ({uid_of('a', state.uids)})", after


def edit(world: World, state: State) -> After:
    for slot, body, own in _objects(state):
        if own.image == "v1":
            after = _with(state, slot, changed(body, {"spec": {"image": "v2"}}))
            yield f"the image of {world.name(slot)} is changed, which the cloud cannot do in place", after


def scale(world: World, state: State) -> After:
    for slot, body, _ in _objects(state):
        after = changed(body, {"spec": {"replicas": 2}})
        if after != body:
            yield f"{world.name(slot)} is scaled", _with(state, slot, after)


def switch(world: World, state: State) -> After:
    for slot, body, own in _objects(state):
        other = "Running" if own.stopped else "Stopped"
        after = changed(body, {"spec": {"powerState": other}})
        yield f"{world.name(slot)} gets powerState {other}", _with(state, slot, after)


def rekey(_: World, state: State) -> After:
    for cluster, organization in enumerate(state.organizations):
        other = 3 - organization
        after = state._replace(organizations=put(state.organizations, cluster, other))
        yield f"the account gets a key of organization {other}", after


def forgotten(world: World, left: tuple[int, ...]) -> bool:
    """Whether all records of a create may be lost: the annotation, and the process, the answer or the status.

    Then a second resource may live until the late create is ended.
    """
    used = {name for (name, count), rest in zip(world.config.acts, left[1:], strict=True) if rest < count}
    deaf = bool(used & {"crash", "depose", "stop_old"})
    if "wipe" in used and (deaf or used & {"give_up", "wipe_status"}):
        return True
    return "wipe_annotations" in used and (deaf or "wipe_status" in used)


def wipe_annotations(world: World, state: State) -> After:
    for slot, body, own in _objects(state):
        if own.intent is not None and not own.deleting:
            bare = changed(body, {"metadata": {"annotations": {CREATE_INTENT: None}, "finalizers": None}})
            yield f"kubectl replace drops intent and finalizer of {world.name(slot)}", _with(state, slot, bare)


def wipe_status(world: World, state: State) -> After:
    for slot, body, own in _objects(state):
        if own.token:
            yield f"the status of {world.name(slot)} is lost", _with(state, slot, changed(body, {"status": None}))


def wipe(world: World, state: State) -> After:
    """A person or a restore wipes status and annotations at once."""
    for slot, body, own in _objects(state):
        nodes = (world.passes.nodes[task.node] for one in state.processes for task in one.tasks if task.waiting)
        if own.token and any(node.uid == own.uid for node in nodes):
            bare: dict[str, JsonValue] = {"annotations": {CREATE_INTENT: None}, "finalizers": None}
            label = f"{world.name(slot)} loses status, intent and finalizer while a create is under way"
            yield label, _with(state, slot, changed(body, {"metadata": bare, "status": None}))


def _policy(world: World, state: State, policy: str) -> After:
    for slot, body, own in _objects(state):
        if own.policy != policy:
            after = _with(state, slot, changed(body, {"spec": {"deletionPolicy": policy}}))
            yield f"{world.name(slot)} gets deletionPolicy {policy}", after


def orphan(world: World, state: State) -> After:
    yield from _policy(world, state, "Orphan")


def stop_policy(world: World, state: State) -> After:
    yield from _policy(world, state, "Stop")


def abandon(world: World, state: State) -> After:
    for slot, body, own in _objects(state):
        if not own.abandoned:
            yield f"{world.name(slot)} gets abandon", _with(state, slot, _annotated(body, ABANDON, "true"))


def adopt(world: World, state: State) -> After:
    for slot, body, own in _objects(state):
        for number, resource in enumerate(state.resources, 1):
            if resource.alive and not own.adopt and not own.id:
                after = _with(state, slot, _annotated(body, ADOPT_ID, id_of(number)))
                yield f"{world.name(slot)} gets adopt-id #{number}", after


def retry(world: World, state: State) -> After:
    for slot, body, own in _objects(state):
        if own.is_open and own.intent is not None and own.retry != own.intent.token:
            after = _with(state, slot, _annotated(body, RETRY_CREATE, own.intent.token))._replace(excused=True)
            yield f"{world.name(slot)} gets retry-create", after


def forge(world: World, state: State) -> After:
    """A hand-written intent names the resource of someone else."""
    for slot, body, own in _objects(state):
        if own.intent is None:
            said = {"token": "forged", "name": "somebody-elses", "attempt": 1, "specHash": "", "startedAt": MOMENT}
            noted: JsonValue = {CREATE_INTENT: json.dumps(said)}
            forged = changed(body, {"metadata": {"annotations": noted, "finalizers": [FINALIZER]}})
            yield f"{world.name(slot)} gets a hand-written intent that names #1", _with(state, slot, forged)


ACTS: Mapping[str, Act] = {
    act.__name__: act
    for act in (
        *(crash, depose, stop_old, lag, give_up, lose_answer, reject, lose_write, refuse, late, list_lag, lose_webhook),
        fail,
        *(end_outside, delete, vanish, force, replace_object, copy, restore, edit, scale, switch, rekey),
        *(wipe, wipe_annotations, wipe_status, orphan, stop_policy, abandon, adopt, retry, forge),
    )
}
"""Every act by name."""
