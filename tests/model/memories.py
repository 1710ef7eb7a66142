"""What a process remembers of an object, as values and back, and how time passes over it.

There is no clock in the model: what is remembered with a time was a moment ago, or long ago.
"""

from dataclasses import fields, is_dataclass, replace
from typing import cast

from relay_operator.engine.memory import SearchingMemory
from relay_operator.flows.managed.memory import ManagedMemory
from tests.model.objects import Known, id_of
from tests.model.state import Frozen

NOW, LONG_AGO = 100_000.0, 0.0
"""Seconds of the monotonic clock. Every delay of the operator lies between the two."""
_LEFT_OUT = frozenset(
    {"uid", "unanswered", "kube_failures", "quiet_looks", "account", "connections", "env_digest", "clean", "told_at"}
)
"""Nothing that the model looks at is decided by them."""
_FRESH = ManagedMemory("")
SEARCH = "searched_since"


def frozen(memory: SearchingMemory) -> Frozen:
    """All that is not as in a fresh one; what cannot be compared is left out, and nothing is decided by it here."""
    assert memory.unwritten is None, "an id is written until that is decided"
    memory.not_seen = min(memory.not_seen, 1)  # more is no surer: see `passes.DELAYS`
    fresh = type(memory)("")
    found = tuple(
        (field.name, frozenset(value) if isinstance(value, set) else value)
        for field in fields(memory)
        if field.name not in _LEFT_OUT and (value := getattr(memory, field.name)) != getattr(fresh, field.name)
        if not isinstance(value, dict)
    )
    return (("uid", memory.uid), *found) if found else ()


def thawed(memory: Frozen, uid: str, kind: type[SearchingMemory] = ManagedMemory) -> SearchingMemory:
    """The memory; fresh where it is of another object."""
    found = dict(memory)
    if found.get("uid") != uid:
        return kind(uid)
    return kind(
        **{  # type: ignore[arg-type]
            name: set(value) if isinstance(value, frozenset) else value for name, value in found.items()
        }
    )


def searching(memory: Frozen) -> bool:
    """Whether its clock runs for what a list lacks."""
    return dict(memory).get(SEARCH) == NOW


def aged(memory: Frozen, *, search: bool) -> Frozen:
    """After a long time; without `search`, as if the search had been going on for a moment only."""
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
    """Without what is about another id, or another intent, than the object has: the operator asks for these first."""
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
