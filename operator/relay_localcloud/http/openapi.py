"""The OpenAPI description of all operations, at `/openapi.json`; it is generated at the first request for it.

The models of `relay_wire` read answers leniently, so that a client survives an unexpected one; the description is
exact: a field is always present unless it is named here, and never null unless it is named here.

Routes add their own: `openapi_extra=ASSUMED` for an operation that the specification does not show,
`response_model` for an answer that the endpoint's annotation does not name. Request bodies are those of `bodies.py`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import cleandoc, get_annotations
from typing import Any, Final

from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from relay_localcloud.http.arguments import Call, Source, Value
from relay_localcloud.http.bodies import BodyReader
from relay_localcloud.http.routing import Route
from relay_wire.base import Sent

Json = dict[str, Any]

ASSUMED: Json = {"x-assumed": True}
"""Marks an operation whose method, path or shape the specification does not show."""

_SECURITY_SCHEMES = {
    "key": {"type": "http", "scheme": "bearer", "description": "It takes an API key or a user session token."},
    "x-api-key": {
        "type": "apiKey",
        "in": "header",
        "name": "x-api-key",
        "description": "It takes an API key, and opens inference only.",
    },
}
_INFO = {
    "title": "The local cloud",
    "description": "The GPU cloud on one machine. `x-assumed: true` marks what its specification does not show.",
    "version": "v1",
}
_ERRORS = {"4XX": "The request cannot be granted (section 7).", "5XX": "Try again later (section 7)."}
_SUCCESS = "Successful Response"
_REF = "#/components/schemas/{model}"

_AS_MODELLED: Final = ("ClusterDetail", "Replica")
"""Answers whose required fields are those that their models require."""

_MAY_BE_ABSENT: Final[Mapping[str, str]] = {
    "ApiKeySummary": "expiresAt lastUsedAt revokedAt",
    "Batch": "model completed_at failed_at expired_at cancelled_at output_file_id error_file_id usage metadata errors",
    "ClassAvailability": "tileLattice",  # VM view only
    "ClusterSummary": "gpuModelId",
    "Deployment": "version dtype quantization maxModelLen engineImage env extraArgs weightsRef statusReason",
    "FileObject": "expires_at",
    "Member": "fullName",
    "Organization": "billingEmail monthlySpendLimitCents slug",
    "Page": "nextCursor",
    "RunnerPool": "vcsOwner vcsOwnerType",
    "ServingReplica": "engineImage startedAt",
    "Snapshot": "readyAt statusReason",
    "User": "avatarUrl defaultOrganizationId fullName",
    "VmRecord": "gpuModelId gpuModelName imageUrl provisioningStage statusReason",
}
"""Fields that may be absent, by the name of the answer's schema; all others are always present."""

_MAY_BE_NULL: Final[Mapping[str, str]] = {
    "Balance": "monthlySpendLimitCents",
    "BatchList": "first_id last_id",
    "BatchProblem": "line",
    "BillingBreakdownItem": "resourceId kind gpuModelId",
    "CurrentUsage": "projectedRunwayHours",
    "FileList": "first_id last_id",
    "InferenceError": "code",
    "MessageAnswer": "stop_sequence",
    "ProviderStanding": "applicationStatus appliedAt decidedAt",
    "ProvisioningToken": "nodeType",
    "ProvisioningTokenCreated": "nodeType",
    "Reservation": "endsAt contractRef reason",
    "WebhookDelivery": "statusCode error",
}


@dataclass(frozen=True)
class Api:
    """The operations of one port, how they answer errors, and the names of the credentials that open them."""

    routes: Sequence[Route]
    error: type[BaseModel]
    credentials: Sequence[str]


def described(apis: Sequence[Api]) -> Json:
    """The OpenAPI document; routes without a tag are left out."""
    routes = [(route, api) for api in apis for route in api.routes if route.tag is not None]
    models = [model for route, api in routes for model in (_model_of(route), api.error) if model is not None]
    inputs: list[tuple[int, JsonSchemaMode, TypeAdapter[Any]]] = [
        (key, "serialization", TypeAdapter(model)) for key, model in {id(model): model for model in models}.items()
    ]
    shapes, definitions = TypeAdapter.json_schemas(inputs, by_alias=True, ref_template=_REF)
    by_model = {key: shape for (key, _), shape in shapes.items()}
    schemas = definitions.get("$defs", {})
    for name, schema in schemas.items():
        _sharpen(name, schema)
    schemas |= _bodies([reader for route, _ in routes if (reader := _body_of(route.call)) is not None])
    paths: dict[str, Json] = {}
    for route, api in routes:
        errors = {status: _content(by_model[id(api.error)], description) for status, description in _ERRORS.items()}
        paths.setdefault(route.path, {})[route.method.lower()] = {
            **_operation(route, by_model.get(id(_model_of(route)), {}), errors),
            **({"security": [{name: []} for name in api.credentials]} if route.path.startswith("/v1/") else {}),
        }
    components = {"schemas": schemas, "securitySchemes": _SECURITY_SCHEMES}
    return {"openapi": "3.1.0", "info": _INFO, "paths": paths, "components": components}


def _sharpen(name: str, schema: Json) -> None:
    """Mark in an answer's schema the fields that are always present and never null."""
    properties: dict[str, Json] = schema.get("properties", {})
    absent = _MAY_BE_ABSENT.get("Page" if name.startswith("Page_") else name, "").split()
    if properties and name not in _AS_MODELLED:
        schema["required"] = [field for field in properties if field not in absent]
    for field in properties.keys() - _MAY_BE_NULL.get(name, "").split():
        _without_null(properties[field])


def _without_null(shape: Json) -> None:
    if shape.get("default", "") is None:
        del shape["default"]
    kept = [branch for branch in shape.get("anyOf", ()) if branch != {"type": "null"}]
    if len(kept) == 1:
        del shape["anyOf"]
        shape.update(kept[0])


def _operation(route: Route, shape: Json, errors: Json) -> Json:
    said = route.said
    status = said.get("status_code", 204 if get_annotations(route.endpoint).get("return", ...) is None else 200)
    responses = {str(status): {"description": _SUCCESS} if status == 204 else _content(shape, _SUCCESS)}
    for other, told in said.get("responses", {}).items():
        responses[str(other)] = _merged(responses[str(other)] if other == status and shape else {}, told)
    extra = said.get("openapi_extra", {})
    operation: Json = {
        "tags": [route.tag],
        "summary": said.get("summary", ""),
        "description": cleandoc(route.endpoint.__doc__ or ""),
        "operationId": route.endpoint.__name__,
        "parameters": [_parameter(value) for value in _values(route.call)],
        "responses": responses | errors,
    }
    body = _body_of(route.call)
    if body is not None:
        schema = {"$ref": _REF.format(model=body.model.__name__)}
        operation["requestBody"] = {
            "required": not body.marker.optional,
            "content": {"application/json": {"schema": schema}},
        }
    return {**operation, **(extra() if callable(extra) else extra)}


def _merged(left: Json, right: Mapping[str, Any]) -> Json:
    content = left.get("content", {}) | right.get("content", {})
    return {"description": _SUCCESS, **left, **right, "content": content}


def _content(shape: Json, description: str) -> Json:
    return {"description": description, "content": {"application/json": {"schema": shape}}}


def _model_of(route: Route) -> Any:  # noqa: ANN401 - a model, or a list of one
    """The model of the answer, if it is known."""
    model = route.said.get("response_model")
    returned = get_annotations(route.endpoint).get("return")
    known = isinstance(returned, type) and issubclass(returned, BaseModel)
    return model if model is not None or not known else returned


def _parameter(value: Value) -> Json:
    schema = value.adapter.json_schema()
    if value.default is not None and not value.required:
        schema["default"] = value.default
    about = {"description": schema["description"]} if "description" in schema else {}
    return {"name": value.name, "in": value.place, "required": value.required, "schema": schema, **about}


def _sources(call: Call) -> Iterator[Source]:
    for source in call.sources.values():
        yield source
        if isinstance(source, Call):
            yield from _sources(source)


def _values(call: Call) -> list[Value]:
    return list({each.name: each for each in _sources(call) if isinstance(each, Value)}.values())


def _body_of(call: Call) -> BodyReader[Any] | None:
    return next((each for each in _sources(call) if isinstance(each, BodyReader)), None)


def _bodies(readers: Sequence[BodyReader[Any]]) -> Json:
    schemas: Json = {}
    for known_fields_only in (False, True):
        models = dict.fromkeys(each.model for each in readers if each.marker.known_fields_only is known_fields_only)
        inputs: list[tuple[type[Any], JsonSchemaMode]] = [(model, "validation") for model in models]
        _, document = models_json_schema(inputs, by_alias=True, ref_template=_REF)
        for name, schema in document.get("$defs", {}).items():
            _loosen(name, schema, known_fields_only=known_fields_only)
            schemas[name] = schema
    return schemas


def _loosen(name: str, schema: Json, *, known_fields_only: bool) -> None:
    """State in a body's schema that unknown fields are ignored, and that null in an optional field means absent."""
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
