"""The OpenAPI description of everything that is served, at `/openapi.json`.

Routes declare what is theirs: `openapi_extra=ASSUMED` for an operation that the specification does not show,
`response_model` for the answer. Request bodies come from the `Body` and `ControlBody` markers of `bodies.py`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.openapi.utils import get_openapi
from fastapi.routing import iter_route_contexts
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from relay_localcloud.http import answers
from relay_localcloud.http.bodies import BodyReader
from relay_wire.base import Sent
from relay_wire.errors import ErrorBody

ASSUMED: dict[str, Any] = {"x-assumed": True}
"""Marks an operation whose method, path or shape the specification does not show."""

ERRORS: Mapping[int | str, dict[str, Any]] = {
    "4XX": {"model": ErrorBody, "description": "The request cannot be granted (section 7)."},
    "5XX": {"model": ErrorBody, "description": "Try again later (section 7)."},
}
"""What every route answers besides its result."""

_KEY = {"type": "http", "scheme": "bearer", "description": "An API key, or a user session token."}
_X_API_KEY = {"type": "apiKey", "in": "header", "name": "x-api-key", "description": "An API key; inference only."}
_REF = "#/components/schemas/{model}"


def operations(app: FastAPI) -> Iterator[tuple[str, str]]:
    """Every (method, path template) that is served and described."""
    for route in iter_route_contexts(app.routes):
        if route.path is not None and getattr(route, "dependant", None) is not None:
            for method in sorted(route.methods or ()):
                yield method, route.path


def describe(app: FastAPI, *, inference: FastAPI) -> None:
    """Make `/openapi.json` of an application show everything that it and the inference API serve."""
    document: list[dict[str, Any]] = []

    def described_once() -> dict[str, Any]:
        if not document:
            document.append(_described([app] if app is inference else [app, inference], inference))
        return document[0]

    app.openapi = described_once  # type: ignore[method-assign]


def _described(apps: Sequence[FastAPI], inference: FastAPI) -> dict[str, Any]:
    document = get_openapi(
        title="The local cloud",
        version="v1",
        description="The GPU cloud on one machine. `x-assumed: true` marks what its specification does not show.",
        routes=[route for app in apps for route in app.routes],
    )
    readers = {operation: reader for app in apps for operation, reader in _readers(app)}
    for_inference = {path for _, path in operations(inference)}
    schemas = _schemas(list(readers.values()))
    components = document.setdefault("components", {})
    for name, schema in components.setdefault("schemas", {}).items():
        answers.sharpen(name, schema)
    components["schemas"].update(schemas)
    components["securitySchemes"] = {"key": _KEY, "x-api-key": _X_API_KEY}
    for (method, path), reader in readers.items():
        operation = document["paths"][path][method.lower()]
        schema = {"$ref": _REF.format(model=reader.model.__name__)}
        operation["requestBody"] = {
            "required": not reader.optional,
            "content": {"application/json": {"schema": schema}},
        }
    for path, operations_of_path in document["paths"].items():
        for operation in operations_of_path.values():
            operation["responses"].pop("422", None)  # the framework's own; invalid parameters are 400 here
            if path.startswith("/v1/"):
                operation["security"] = [{"key": []}, *([{"x-api-key": []}] if path in for_inference else ())]
    return document


def _readers(app: FastAPI) -> Iterator[tuple[tuple[str, str], BodyReader[Any]]]:
    for route in iter_route_contexts(app.routes):
        dependant = getattr(route, "dependant", None)
        if not isinstance(dependant, Dependant) or route.path is None:
            continue
        for dependency in dependant.dependencies:
            if isinstance(dependency.call, BodyReader):
                for method in route.methods or ():
                    yield (method, route.path), dependency.call


def _schemas(readers: Sequence[BodyReader[Any]]) -> dict[str, Any]:
    schemas: dict[str, Any] = {}
    for known_fields_only in (False, True):
        models = dict.fromkeys(each.model for each in readers if each.known_fields_only is known_fields_only)
        inputs: list[tuple[type[Any], JsonSchemaMode]] = [(model, "validation") for model in models]
        _, document = models_json_schema(inputs, by_alias=True, ref_template=_REF)
        for name, schema in document.get("$defs", {}).items():
            _loosen(name, schema, known_fields_only=known_fields_only)
            schemas[name] = schema
    return schemas


def _loosen(name: str, schema: dict[str, Any], *, known_fields_only: bool) -> None:
    """Say in a body's schema that unknown fields are overlooked, and that null in an optional field means absent."""
    if not known_fields_only and schema.get("additionalProperties") is False:
        del schema["additionalProperties"]
    required = schema.get("required", ())
    for field, shape in schema.get("properties", {}).items() if name in _names_below(Sent) else ():
        if field not in required and {"type": "null"} not in shape.get("anyOf", ()):
            inner = {key: shape.pop(key) for key in list(shape) if key not in {"title", "default", "description"}}
            shape["anyOf"] = [inner, {"type": "null"}]


def _names_below(model: type[Any]) -> frozenset[str]:
    below = model.__subclasses__()
    return frozenset({each.__name__ for each in below}.union(*map(_names_below, below)))
