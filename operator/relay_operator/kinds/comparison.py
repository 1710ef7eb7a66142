"""How specs are compared with the cloud, the same for every kind of workload. Pure."""

from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from relay_operator.api.workload import WorkloadSpec


def differing(*fields: tuple[str, object, object]) -> tuple[str, ...]:
    """`field: asked X, has Y` for each (field, asked, has) that differs.

    What the cloud does not report, or the spec leaves to it, is no difference; a sequence asks for any of its items.
    """
    return tuple(f"{name}: asked {_shown(asked)}, has {has}" for name, asked, has in fields if not _fits(asked, has))


def _fits(asked: object, has: object) -> bool:
    if has is None or has == "" or asked is None:
        return True
    if isinstance(asked, tuple):
        return not asked or has in asked
    return asked == has


def _shown(asked: object) -> str:
    return " or ".join(map(str, asked)) if isinstance(asked, tuple) else str(asked)


def env_fields(spec: WorkloadSpec) -> Mapping[str, JsonValue]:
    """The environment as the spec writes it: literal values and the names of sources, never what is in those."""
    return {
        "env": [item.model_dump(mode="json", exclude_none=True) for item in spec.env or ()],
        "envFrom": [item.model_dump(mode="json", exclude_none=True) for item in spec.env_from or ()],
    }


def texts(values: Sequence[str] | None) -> list[JsonValue]:
    """A list of texts as JSON; absent and empty are the same."""
    return list(values or ())
