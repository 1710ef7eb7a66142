"""How specs are compared with the cloud, the same for every kind of workload. Pure."""

from collections.abc import Collection, Mapping, Sequence

from pydantic import JsonValue
from pydantic.alias_generators import to_camel

from relay_operator.api.meta import Model
from relay_operator.api.parts import EnvVar
from relay_operator.api.workload import WorkloadSpec
from relay_operator.engine.intent import Unordered


def differing(*fields: tuple[str, object, object]) -> tuple[str, ...]:
    """`field: asked X, has Y` for each (field, asked, has) that differs.

    A value that the cloud does not report, or that the spec leaves to the cloud, does not differ. A tuple in the spec
    accepts any of its items.
    """
    return tuple(f"{name}: asked {_shown(asked)}, has {has}" for name, asked, has in fields if not fits(asked, has))


def same_named(spec: object, observed: object, *names: str) -> tuple[tuple[str, object, object], ...]:
    """(field, asked, has) of each attribute that has the same name in a spec and in an observation."""
    return tuple((to_camel(name), getattr(spec, name), getattr(observed, name)) for name in names)


def in_order(words: Collection[str] | None) -> str:
    """Words without an order, sorted and joined to one text."""
    return ", ".join(sorted(set(words or ())))


def fits(asked: object, has: object) -> bool:
    """Whether the cloud has what the spec asks, as `differing` tells it."""
    if has is None or has == "" or asked is None:
        return True
    if isinstance(asked, tuple):
        return not asked or has in asked
    return asked == has


def spelled(name: str | None) -> str:
    """The name without what a cloud may spell otherwise: upper case, and how many spaces there are."""
    return " ".join((name or "").casefold().split())


def _shown(asked: object) -> str:
    return " or ".join(map(str, asked)) if isinstance(asked, tuple) else str(asked)


def env_fields(spec: WorkloadSpec) -> Mapping[str, JsonValue]:
    """The environment as the spec writes it: literal values and the names of sources, never the contents of sources."""
    return {
        "env": env_as_written(spec.env),
        "envFrom": [as_written(item) for item in spec.env_from or ()],
    }


def env_as_written(env: Sequence[EnvVar] | None) -> Unordered:
    """The variables as JSON: literal values and the names of sources."""
    return Unordered(as_written(item) for item in env or ())


def as_written(part: Model | None) -> JsonValue:
    """A part of a spec as JSON; None if it is absent."""
    return None if part is None else part.model_dump(mode="json", exclude_none=True)


def texts(values: Sequence[str] | None) -> list[JsonValue]:
    """A list of texts as JSON; an absent list becomes an empty one."""
    return list(values or ())
