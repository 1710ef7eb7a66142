"""Parses an object with an invalid spec as far as its deletion needs it. Pure."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Annotated, Any

from pydantic import JsonValue, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from relay_operator.api.meta import ObjectMeta, Resource
from relay_operator.api.workload import ManagedSpec, SpecT, StatusT

_NEEDED = ("accountRef", "deletionPolicy")
_OBJECT: TypeAdapter[dict[str, JsonValue]] = TypeAdapter(dict[str, JsonValue])


def parse(model: type[Resource[SpecT, StatusT]], body: bytes) -> Resource[SpecT, StatusT]:
    """The object; while it is deleted, only the fields that its end needs have to be valid. Raises ValidationError."""
    try:
        return model.model_validate_json(body)
    except ValidationError:
        raw = _OBJECT.validate_json(body)
        if ObjectMeta.model_validate(raw.get("metadata")).deletion_timestamp is None:
            raise
        return _for_its_end(model, raw)


def legible(obj: Resource[SpecT, StatusT]) -> bool:
    """Whether the whole spec could be read; False for some objects that are being deleted."""
    return "spec" in obj.model_fields_set


def says(obj: Resource[SpecT, StatusT], *fields: str) -> bool:
    """Whether each of these fields of the spec was given, and could be read."""
    return obj.spec.model_fields_set >= set(fields)


def _for_its_end(model: type[Resource[SpecT, StatusT]], raw: dict[str, JsonValue]) -> Resource[SpecT, StatusT]:
    """The object with each field that is valid by itself; required ones may be missing. Raises ValidationError."""
    spec = raw.get("spec")
    said = spec if isinstance(spec, dict) else {}
    asked = ManagedSpec.model_validate({name: said[name] for name in _NEEDED if name in said})
    needed = {name: getattr(asked, name) for name in asked.model_fields_set}
    spec_type, status_type = (model.model_fields[name].annotation for name in ("spec", "status"))
    assert spec_type is not None, "every kind says what its spec is"
    assert status_type is not None, "every kind says what its status is"
    return model.model_construct(
        {"kind", "metadata", "status"},
        kind=model.model_fields["kind"].default,
        metadata=ObjectMeta.model_validate(raw.get("metadata")),
        spec=spec_type.model_construct(**dict(_valid(spec_type.model_fields, said)) | needed),
        status=status_type.model_validate(raw.get("status") or {}),
    )


def _valid(fields: Mapping[str, FieldInfo], said: Mapping[str, JsonValue]) -> Iterator[tuple[str, object]]:
    """The values that are valid by themselves, by the names of their fields."""
    for name, field in fields.items():
        if (alias := field.alias or name) in said:
            alone: Any = Annotated[field.annotation, name, *field.metadata]
            with suppress(ValidationError):
                yield name, TypeAdapter(alone).validate_python(said[alias])
