"""Memories of objects as comparable values, and how they age.

The model has no clock: a remembered time is either a moment ago or long ago.
"""

from dataclasses import fields, is_dataclass, replace
from typing import cast

from relay_operator.engine.memory import SearchingMemory
from relay_operator.flows.managed.memory import ManagedMemory
from tests.model.objects import Known, id_of
from tests.model.state import Frozen

NOW, LONG_AGO = 100_000.0, 0.0
"""Monotonic seconds. Every delay of the operator is shorter than the difference."""
_LEFT_OUT = frozenset(
    {
        "uid",
        "unanswered",
        "kube_failures",
        "quiet_looks",
        "events_until",
        "account",
        "connections",
        "env_digest",
        "clean",
        "told_at",
        "former_terminated",  # what ends is gone at once
        "awaited",  # neither the time that webhooks have
        "known",  # nor a 404 right after a create is modelled
    }
)
"""Fields that no decision in the model depends on."""
_FRESH = ManagedMemory("")
SEARCH = "searched_since"


def frozen(memory: SearchingMemory) -> Frozen:
    """Returns the fields that differ from a fresh memory, with the UID; empty if none do.

    Dictionaries are left out: they cannot be hashed, and no decision in the model depends on them.
    """
    assert memory.unwritten is None, "an id is written until that is decided"
    memory.not_seen = min(memory.not_seen, 1)  # further misses change nothing: see `passes.DELAYS`
    fresh = type(memory)("")
    found = tuple(
        (field.name, frozenset(value) if isinstance(value, set) else value)
        for field in fields(memory)
        if field.name not in _LEFT_OUT and (value := getattr(memory, field.name)) != getattr(fresh, field.name)
        if not isinstance(value, dict)
    )
    return (("uid", memory.uid), *found) if found else ()


def thawed(memory: Frozen, uid: str, kind: type[SearchingMemory] = ManagedMemory) -> SearchingMemory:
    """Returns the memory; a fresh one if the values are those of another object."""
    found = dict(memory)
    if found.get("uid") != uid:
        return kind(uid)
    return kind(
        **{  # type: ignore[arg-type]
            name: set(value) if isinstance(value, frozenset) else value for name, value in found.items()
        }
    )


def searching(memory: Frozen) -> bool:
    """Whether a search began a moment ago, so that an absence from lists proves nothing yet."""
    return dict(memory).get(SEARCH) == NOW


def aged(memory: Frozen, *, search: bool) -> Frozen:
    """Returns the memory after a long time; without `search`, the search still began a moment ago."""
    older = {name: value if name == SEARCH and not search else _older(value) for name, value in memory}
    found = tuple((name, value) for name, value in older.items() if value != getattr(_FRESH, name))
    return found if len(found) > 1 else ()


def _older(value: object) -> object:
    if isinstance(value, float):
        return LONG_AGO if value == NOW else value
    if isinstance(value, tuple):
        return tuple(_older(item) for item in value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{field.name: _older(getattr(value, field.name)) for field in fields(value)})
    return value


def mattering(memory: Frozen, told: Known, alive: bool) -> Frozen:
    """Returns the memory without what is about another id or intent than the object's: the operator ignores that."""
    name = told.intent.name if told.is_open and told.intent is not None else ""
    token = told.intent.token if told.is_open and told.intent is not None else ""
    cloud_id = id_of(told.id) if told.id else ""
    found = dict(memory)
    tokens = {told.token, told.intent.token if told.intent is not None else ""} - {""}
    if str(found.get("searched", "")).partition("/")[0] not in {name, *tokens}:
        for part in ("searched", SEARCH, "not_seen", "not_seen_at"):
            found.pop(part, None)
    if "unsent" in found and token not in cast(frozenset[str], found["unsent"]):
        del found["unsent"]
    elif "unsent" in found:
        found["unsent"] = frozenset({token})
    for part in ("missing", "terminated"):
        if part in found and (cast(tuple[str, float], found[part])[0] != cloud_id or not alive):
            del found[part]
    return tuple(found.items()) if len(found) > 1 else ()
