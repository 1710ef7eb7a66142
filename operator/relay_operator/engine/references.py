"""Which objects of ours an object refers to, read from its JSON. Pure."""

from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from relay_operator.api.meta import ObjectKey
from relay_operator.api.references import REFERENCES

_FIELDS = frozenset(REFERENCES)


def named(metadata: Mapping[str, JsonValue], spec: Mapping[str, JsonValue]) -> tuple[ObjectKey, ...]:
    """The objects that the spec names."""
    if _FIELDS.isdisjoint(spec):
        return ()
    return tuple(
        key
        for field, kind in REFERENCES.items()
        if field in spec
        for row in _rows(spec[field])
        for key in _key(metadata, kind, row.get("name"))
    )


def held(metadata: Mapping[str, JsonValue], status: Mapping[str, JsonValue]) -> tuple[ObjectKey, ...]:
    """The objects whose resources were given to this one's, according to status."""
    return _given(metadata, status) if "references" in status else ()


def held_aside(metadata: Mapping[str, JsonValue], status: Mapping[str, JsonValue]) -> tuple[ObjectKey, ...]:
    """The objects whose resources were given to its former resources."""
    if "former" not in status:
        return ()
    return tuple(key for row in _rows(status["former"]) if "references" in row for key in _given(metadata, row))


def _given(metadata: Mapping[str, JsonValue], given: Mapping[str, JsonValue]) -> tuple[ObjectKey, ...]:
    rows = _rows(given["references"])
    return tuple(key for row in rows for key in _key(metadata, row.get("kind"), row.get("name")))


def _rows(value: JsonValue) -> Iterator[Mapping[str, JsonValue]]:
    """Yields the rows of one reference, or of a list of them."""
    return (row for row in (value if isinstance(value, list) else [value]) if isinstance(row, dict))


def _key(metadata: Mapping[str, JsonValue], kind: JsonValue, name: JsonValue) -> Iterator[ObjectKey]:
    if isinstance(kind, str) and isinstance(name, str):
        yield ObjectKey(kind, str(metadata.get("namespace") or ""), name)
