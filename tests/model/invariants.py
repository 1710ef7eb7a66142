"""The invariants. Each check returns a sentence that describes the violation; empty if there is none.

I1 An object never has two living resources; if excused, not at rest. No part of a batch is paid for twice, not even
   after the first batch ended.
I2 At rest each living resource is recorded by its object, kept, reported, or may be that of an open intent; the id of
   a living resource is never cleared.
I3 A resource is ended or changed only for its owner.
I4 The finalizer, and the record of a vanished object, is removed only when the resource is gone or kept.
I5 No object records a resource that was made for another.
I6 At rest no resource is both recorded by an object and recorded to be ended.
I7 A serving resource is not ended before another has taken its place; and there are at most two.
I8 At rest each object has what its spec says: a resource, or an open intent whose outcome is unknown; running or
   stopped, with so many replicas, unless it stalls since the cloud cannot change the image in place. An object that is
   being deleted does not rest while its own resource lives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.model.asked import Terminate
from tests.model.configurations import OTHERS
from tests.model.neighbours import ACCOUNT
from tests.model.objects import BATCH, Known, id_of, known, loaded, number_of
from tests.model.state import uid_in

if TYPE_CHECKING:
    from tests.model.asked import Power, Scale
    from tests.model.state import Resource, State, Task
    from tests.model.steps import World


def always(world: World, state: State) -> str:
    """Checks I1, or with blue and green the limit of I7."""
    if state.excused:
        return ""
    counted = [one for one in state.resources if one.alive or world.config.kind == BATCH]
    owners = [one.owner for one in counted if not one.kept and one.owner != OTHERS]
    if world.config.blue_green:
        crowded = any(owners.count(owner) > 2 for owner in owners)
        return "I7: three living resources of one object" if crowded else ""
    return "I1: two living resources of one object" if len(owners) != len(set(owners)) else ""


def writing(world: World, state: State, before: bytes, after: bytes) -> str:
    """Checks a write of status: I5 for ids written, I2 for ids cleared, I7 for a successor that was never Ready."""
    was, now = known(before), known(after)
    relieved = was.serving and not was.deleting and was.id and (now.id, now.serving) == (was.id, 0)
    if relieved and _alive(state, was.serving) and not state.resources[now.id - 1].ready:
        return f"I7: #{now.id} has the place of #{was.serving}, and was never Ready"
    if (was.ids, was.recorded_uid) == (now.ids, now.recorded_uid):
        return ""
    for number in was.ids - now.ids:
        if _alive(state, number) and state.resources[number - 1].uid == was.uid:
            return f"I2: the id of #{number}, which lives, is cleared"
    for number in now.ids:
        resource = state.resources[number - 1]
        if resource.alive and resource.uid != now.uid and not _chosen(world, now, resource):
            return f"I5: {now.uid} records #{number}, which was made for {resource.owner}"
    if not now.id or not _alive(state, now.id):
        return ""
    resource = state.resources[now.id - 1]
    for other in _objects(state):
        if (
            not world.config.shared
            and other.uid not in {now.uid, was.uid}
            and (other.id, other.uid) == (now.id, resource.owner)
        ):
            return f"I5: two objects record #{now.id}"
    return ""


def recorded(world: World, state: State, before: bytes, after: bytes) -> State:
    """Returns the state in which the object owns the resource that this write took over."""
    was, now = known(before), known(after)
    if (was.ids, was.recorded_uid) == (now.ids, now.recorded_uid) or not _alive(state, now.id):
        return state
    resource = state.resources[now.id - 1]
    if _chosen(world, now, resource):
        return world.resource(state, now.id, resource._replace(owner=now.uid, kept=False))
    return state


def _chosen(world: World, now: Known, resource: Resource) -> bool:
    """Whether people chose this resource for the object: by `adopt-id`, or by a restore if adoption is allowed."""
    restored = resource.owner[9:] == now.uid[9:] and not world.config.across
    return world.config.adoption and (now.adopt == id_of(now.id) or restored or resource.owner == OTHERS)


def touching(world: World, state: State, task: Task, deed: Terminate | Power | Scale) -> str:
    """Checks I3, and I7 for terminations."""
    number, uid = number_of(deed.id), world.passes.nodes[task.node].uid
    resource = state.resources[number - 1]
    if not resource.alive:
        return ""
    has = any(number in own.ids and own.uid == resource.uid and not own.deleting for own in _objects(state))
    if task.key == ACCOUNT and not resource.kept and not has:
        return "" if resource.owner != OTHERS else f"I3: #{number} is ended, which people made"
    if task.key != ACCOUNT and resource.uid != uid and not _successor(world, uid, resource.owner):
        return f"I3: #{number} is touched for {uid}, and is {resource.owner}'s"
    if resource.kept:
        return f"I3: #{number} is touched, which was kept on purpose"
    serves = any(own.serving == number and not own.deleting for own in _objects(state))
    if serves and isinstance(deed, Terminate):
        return f"I7: #{number} is ended, which serves"
    if (task.key.vanished or task.key == ACCOUNT) and has:
        return f"I3: #{number} is ended as nobody's while {uid} has it"
    return ""


def _successor(world: World, uid: str, former: str) -> bool:
    """Whether the object is the restored one of the same name, which may take over the former's resource."""
    return world.config.adoption and not world.config.across and uid[9:] == former[9:] and uid > former


def releasing(state: State, before: bytes) -> str:
    """Checks I4 for the removal of a finalizer."""
    own = known(before)
    if state.excused or own.abandoned:
        return ""
    others = {other.id for other in _objects(state) if other.uid != own.uid}
    told = _departed_ids(state)
    left = own.ids if own.policy == "Orphan" else {own.id} if own.policy == "Stop" else set()
    allowed = others | told | left
    mine = {n for n, one in enumerate(state.resources, 1) if one.alive and one.uid == own.uid and not one.kept}
    if mine - allowed:
        return f"I4: the finalizer of {own.uid} goes while its resource lives"
    if any(uid_in(request.owner) == own.uid for request in state.requests):
        return f"I4: the finalizer of {own.uid} goes while its create is in flight"
    return ""


def kept(world: World, state: State, before: bytes) -> State:
    """Returns the state after an object is deleted that leaves resources on purpose.

    They are kept; a resource that another object records too belongs to that one.
    """
    own = known(before)
    heirs = [
        other.uid for other in _objects(state) if other.uid == other.recorded_uid != own.uid and other.id == own.id
    ]
    for number, resource in enumerate(state.resources, 1):
        orphaned = own.abandoned or own.policy == "Orphan"
        wanted = number in own.ids if orphaned else number == own.id and own.policy == "Stop"
        if resource.alive and resource.owner == own.uid and wanted:
            left = resource._replace(owner=heirs[0]) if heirs else resource._replace(kept=True)
            state = world.resource(state, number, left)
    return state._replace(excused=True) if own.abandoned else state


def letting_go(world: World, state: State, task: Task) -> str:
    """Checks I4 for the removal of a vanished object's record."""
    body = world.passes.nodes[task.node].beginning.body
    own = known(body) if body and task.key.vanished else None
    if own is None or state.excused or own.policy != "Delete" or own.abandoned:
        return ""
    resource = state.resources[own.id - 1] if own.id else None
    recorded_too = any(other.id == own.id for other in _objects(state))
    if resource is not None and resource.alive and resource.uid == own.uid and not recorded_too:
        return f"I4: {own.uid}, which vanished, is let go while #{own.id} lives"
    name = own.intent.name if own.is_open and own.intent is not None else None
    if any(request.name == name for request in state.requests):
        return f"I4: {own.uid}, which vanished, is let go while its create is in flight"
    return ""


def at_rest(world: World, state: State) -> str:
    """Checks I1 without excuses, I2, I6 and I7 in a state in which nothing more happens by itself."""
    for own in _objects(state):
        if own.serving and not (own.deleting or own.is_open or _alive(state, own.id)):
            return f"I7: #{own.serving} serves, and has not its place again"
    both = {own.id for own in _objects(state) if own.recorded_uid == own.uid} & _departed_ids(state) - {0}
    if both:
        return f"I6: #{min(both)} is recorded, and kept to be ended: neither can be done"
    if world.config.kind == BATCH and state.excused:
        return ""  # a batch without an object may stay unnoticed: the cloud ends it within a day
    for number, resource in enumerate(state.resources, 1):
        if resource.alive and not resource.kept and resource.owner != OTHERS and not _told(state, number):
            return f"I2: #{number} is forgotten"
    uids = {own.uid for own in _objects(state)}
    for number, resource in enumerate(state.resources, 1):
        if world.config.ended and resource.alive and resource.uid not in uids:
            return f"I2: #{number} lives without its object"
    owners = [one.owner for one in state.resources if one.alive and not one.kept and one.uid in uids]
    waiting = any(own.is_open for own in _objects(state))
    if len(owners) != len(set(owners)) and not waiting:
        return "I1: two living resources of one object, at rest"
    return next(filter(None, (_unmet(world, state, slot) for slot in range(len(state.objects)))), "")


def _unmet(world: World, state: State, slot: int) -> str:
    """Checks I8 for one object."""
    body = state.objects[slot]
    if body is None or world.config.kind == BATCH:
        return ""
    own, organization = known(body), state.organizations[world.config.clusters[slot]]
    if not own.id:
        lacks = not (own.deleting or own.is_open or own.stopped or own.adopt)
        return f"I8: {own.uid} rests, and nothing was created for it" if lacks else ""
    resource = state.resources[own.id - 1]
    is_own = own.uid == own.recorded_uid == resource.uid and resource.organization == organization
    is_contested = any(own.id in other.ids for other in _objects(state) if other.uid != own.uid)
    if not resource.alive or not is_own or is_contested or resource.failed:
        return ""
    if own.deleting:
        return f"I8: {own.uid} is being deleted, and rests while #{own.id} lives"
    if resource.image != own.image and not (world.config.recreate or world.config.blue_green):
        return ""  # stalls: the cloud cannot change the image, and a person is to decide what becomes of the resource
    if resource.running == own.stopped:
        return f"I8: #{own.id} rests {'running' if resource.running else 'stopped'}, and is to be the other"
    if resource.running and resource.replicas != own.replicas:
        return f"I8: #{own.id} rests with {resource.replicas} replicas of {own.replicas}"
    return ""


def _told(state: State, number: int) -> bool:
    """Whether a status, an open intent or a ConfigMap (of a leftover or a vanished object) records the resource."""
    resource = state.resources[number - 1]
    for own in _objects(state):
        if number in own.ids and (resource.uid == own.uid or own.recorded_uid != own.uid):
            return True  # its own, or that of a restored object that stalls and names it
        intent = own.intent if own.is_open else None
        if intent is not None and resource.name.partition("/")[0] in {intent.name, intent.token}:
            return True
    for _, map_name, body in state.config_maps:
        if map_name.startswith("leftover"):
            record = loaded(body)
            if (number, resource.name) in {(number_of(str(record["id"])), record["name"]), (number, record["name"])}:
                return True
            continue
        left = known(body)
        if number in left.ids or (left.is_open and left.intent is not None and left.intent.name == resource.name):
            return True
    return False


def _objects(state: State) -> list[Known]:
    return [known(body) for body in state.objects if body is not None]


def _departed_ids(state: State) -> set[int]:
    """Returns the ids of vanished objects in ConfigMaps and in processes; 0 for an object without ids."""
    bodies = {body for _, name, body in state.config_maps if name.startswith("vanished")}
    bodies |= {one.body for process in state.processes for one in process.books.departed}
    return {number for body in bodies for number in known(body).ids or {0}}


def _alive(state: State, number: int) -> bool:
    return number > 0 and state.resources[number - 1].alive
