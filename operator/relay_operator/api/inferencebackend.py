"""InferenceBackend: a server that answers for a model of the catalog (section 2, "Inference catalog backend")."""

from enum import StrEnum
from typing import Literal, TypeAlias

from pydantic import Field

from relay_operator.api.definition import AGE, ID, READY, REASON, Column, definition_of
from relay_operator.api.meta import Resource, Time
from relay_operator.api.references import SecretKeyRef
from relay_operator.api.schema import as_set, never_changed, rules
from relay_operator.api.workload import NEVER_STOPPED, SAME_ACCOUNT, ManagedSpec, PartStatus
from relay_wire.inference import CatalogModel

_MOST = 2**31 - 1
_SAME_MODEL = never_changed("modelId", ", since a backend stands behind one model: create another object")
_KEY_IS_SENT = (
    "!has(self.apiKeySecretRef) || (has(self.auth) && self.auth == 'api_key')",
    "only auth: api_key sends apiKeySecretRef: set auth: api_key, or leave apiKeySecretRef out",
)


class Provider(StrEnum):
    """Who runs the backend, by the cloud's names."""

    AZURE_OPENAI = "azure_openai"
    BEDROCK = "bedrock"
    VERTEX = "vertex"
    OPENAI_COMPATIBLE = "openai_compatible"


class Auth(StrEnum):
    """How requests to the backend are authenticated, by the cloud's names."""

    NONE = "none"
    API_KEY = "api_key"
    AWS_SIGV4 = "aws_sigv4"
    GCP_OAUTH = "gcp_oauth"


class Transport(StrEnum):
    """How the cloud connects to the backend, by the cloud's names."""

    DIRECT = "direct"
    TUNNEL = "tunnel"
    PRIVATELINK = "privatelink"


class NativeFamily(StrEnum):
    """An API that the server of a model speaks, by the cloud's names."""

    CHAT_COMPLETIONS = "chat_completions"
    MESSAGES = "messages"


class InferenceBackendSpec(ManagedSpec):
    """The server, the model that it answers for, and its share of the traffic."""

    model_config = rules(SAME_ACCOUNT, NEVER_STOPPED, _SAME_MODEL, _KEY_IS_SENT)

    model_id: CatalogModel = Field(description="The model that it answers for. Cannot be changed later.")
    provider: Provider = Field(description="Who runs it: azure_openai, bedrock, vertex or openai_compatible.")
    ref: str = Field(min_length=1, max_length=2000, description="What the model is called there.")
    endpoint: str = Field(
        min_length=1,
        max_length=2000,
        pattern=r"^https?://[^\s/?#@]+(/[^\s?#]*)?$",
        description="The server's address, /v1 included, without credentials, query and fragment.",
    )
    native_families: list[NativeFamily] = Field(
        min_length=1,
        max_length=2,
        json_schema_extra=as_set(),
        description="The APIs that it speaks: chat_completions, messages.",
    )
    auth: Auth = Field(
        Auth.NONE, description="How it is authenticated to; none by default. Cannot be changed in place."
    )
    api_key_secret_ref: SecretKeyRef | None = Field(
        None, description="The key that auth: api_key sends as bearer authorization, in a Secret of this namespace."
    )
    transport: Transport = Field(Transport.DIRECT, description="How it is reached; direct by default.")
    weight: int = Field(
        0,
        ge=0,
        le=_MOST,
        description="Its share of the traffic, beside the weights of the model's other backends. 0: only "
        "what those cannot take.",
    )
    max_concurrency: int = Field(0, ge=0, le=_MOST, description="Requests that it takes at once; 0: any number.")


class InferenceBackendStatus(PartStatus):
    """What the cloud says about one backend."""

    provider: str | None = Field(None, max_length=64, description="Who runs it.")
    ref: str | None = Field(None, max_length=2000, description="What the model is called there.")
    endpoint: str | None = Field(None, max_length=2048, description="The server's address.")
    auth: str | None = Field(None, max_length=64, description="How it is authenticated to.")
    transport: str | None = Field(None, max_length=64, description="How it is reached.")
    weight: int | None = Field(None, ge=0, description="Its share of the traffic.")
    max_concurrency: int | None = Field(None, ge=0, description="Requests that it takes at once; 0: any number.")
    created_at: Time | None = Field(None, description="When it was made.")


class InferenceBackend(Resource[InferenceBackendSpec, InferenceBackendStatus]):
    """One backend."""

    kind: Literal["InferenceBackend"] = "InferenceBackend"


DEFINITION = definition_of(
    InferenceBackend,
    "ibackend",
    summary="A server that answers for a model of the catalog.",
    columns=(
        Column("Model", ".spec.modelId"),
        Column("Provider", ".status.provider"),
        Column("Weight", ".status.weight", "integer"),
        READY,
        AGE,
        REASON,
        Column("Endpoint", ".status.endpoint", priority=1),
        ID,
    ),
)

Backing: TypeAlias = Resource[InferenceBackendSpec, InferenceBackendStatus]
