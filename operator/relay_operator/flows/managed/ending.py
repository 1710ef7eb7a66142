"""Parses an object with an invalid spec as far as its deletion needs it. Pure."""

from pydantic import JsonValue, TypeAdapter, ValidationError

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


def _for_its_end(model: type[Resource[SpecT, StatusT]], raw: dict[str, JsonValue]) -> Resource[SpecT, StatusT]:
    """The object with defaults for all other fields; required ones may be missing. Raises ValidationError."""
    spec = raw.get("spec")
    said = spec if isinstance(spec, dict) else {}
    asked = ManagedSpec.model_validate({name: said[name] for name in _NEEDED if name in said})
    needed = {name: getattr(asked, name) for name in asked.model_fields_set}
    spec_type, status_type = (model.model_fields[name].annotation for name in ("spec", "status"))
    assert spec_type is not None, "every kind says what its spec is"
    assert status_type is not None, "every kind says what its status is"
    return model.model_construct(
        kind=model.model_fields["kind"].default,
        metadata=ObjectMeta.model_validate(raw.get("metadata")),
        spec=spec_type.model_construct(**needed),
        status=status_type.model_validate(raw.get("status") or {}),
    )
