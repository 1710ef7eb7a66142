"""RegistryCredential: what private images of one registry are pulled with (section 2, "Registry credential")."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal, TypeAlias

from pydantic import Field, JsonValue

from relay_client import Cloud, operations
from relay_operator.api.definition import RECORD_COLUMNS, Column, definition_of
from relay_operator.api.meta import CreateIntent, Resource
from relay_operator.api.parts import EnvFromRef, EnvFromSource
from relay_operator.api.references import LocalRef, SecretKeyRef, ValueSource
from relay_operator.api.schema import rules
from relay_operator.api.workload import NEVER_STOPPED, SAME_ACCOUNT, ManagedSpec, SupersedingStatus
from relay_operator.flows.managed.resource import InputRefs, Inputs
from relay_operator.kinds.comparison import differing
from relay_operator.kinds.docker_config import KEY, login, same_server
from relay_operator.kinds.records import Records
from relay_wire.registry_credentials import RegistryCredential as Credential
from relay_wire.registry_credentials import RegistryCredentialCreate

_DOCKER_CONFIG = "dockerConfigSecretRef"
_LOGIN = ("username", "password")
"""Keys that `basic` needs."""


class AuthType(StrEnum):
    """How the registry is logged in to, in the cloud's words."""

    BASIC = "basic"
    AWS_ECR = "aws_ecr"
    GCP_GCR = "gcp_gcr"


class RegistryCredentialSpec(ManagedSpec):
    """Which registry, and what it is logged in to with."""

    model_config = rules(
        SAME_ACCOUNT,
        NEVER_STOPPED,
        (
            "has(self.dockerConfigSecretRef) != has(self.credentialsSecretRef)",
            "set exactly one of dockerConfigSecretRef and credentialsSecretRef",
        ),
        (
            "!has(self.credentialsSecretRef) || (has(self.server) && has(self.authType))",
            "credentialsSecretRef does not say what it is for: set server and authType as well",
        ),
        (
            "!has(self.dockerConfigSecretRef) || !has(self.authType) || self.authType == 'basic'",
            "what dockerConfigSecretRef leads to is a user and a password: leave authType out",
        ),
    )

    server: str | None = Field(
        None,
        min_length=1,
        max_length=255,
        pattern=r"^(https?://)?[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[^\s?#@]*)?$",
        description="The registry's address, such as ghcr.io. It may be left out if the Secret names only one.",
    )
    docker_config_secret_ref: LocalRef | None = Field(
        None,
        description="A Secret of the type kubernetes.io/dockerconfigjson, as `kubectl create secret docker-registry` "
        "makes it.",
    )
    auth_type: AuthType | None = Field(
        None, description="How to log in with what credentialsSecretRef leads to: basic, aws_ecr or gcp_gcr."
    )
    credentials_secret_ref: LocalRef | None = Field(
        None,
        description="A Secret whose keys are what the registry is logged in to with: username and password for basic, "
        "those that the cloud asks for otherwise.",
    )


class RegistryCredentialStatus(SupersedingStatus):
    """What the cloud says about one credential."""

    server: str | None = Field(None, max_length=255, description="The registry that it is for.")
    auth_type: str | None = Field(None, max_length=64, description="How the registry is logged in to.")


class RegistryCredential(Resource[RegistryCredentialSpec, RegistryCredentialStatus]):
    """One credential."""

    kind: Literal["RegistryCredential"] = "RegistryCredential"
    status: RegistryCredentialStatus = Field(default_factory=RegistryCredentialStatus)


DEFINITION = definition_of(
    RegistryCredential,
    "rcred",
    summary="What the private images of one registry are pulled with, from a Secret.",
    columns=(Column("Server", ".status.server"), Column("Type", ".status.authType"), *RECORD_COLUMNS),
)

Login: TypeAlias = Resource[RegistryCredentialSpec, RegistryCredentialStatus]


class RegistryCredentials(Records[RegistryCredentialSpec, RegistryCredentialStatus, Credential]):
    """How a RegistryCredential maps to a credential of the organization."""

    definition = DEFINITION
    model = RegistryCredential
    mirrored = ("server", "auth_type")
    list_operation = operations.LIST_REGISTRY_CREDENTIALS
    delete_operation = operations.DELETE_REGISTRY_CREDENTIAL

    async def create(self, cloud: Cloud, obj: Login, intent: CreateIntent, inputs: Inputs) -> Credential:
        given = _given(obj.spec, inputs)
        assert not isinstance(given, str), "what cannot be used is not sent"
        request = RegistryCredentialCreate.model_validate({"name": intent.name, **given})
        made = await cloud.call(operations.CREATE_REGISTRY_CREDENTIAL, request)
        return made.model_copy(update={"server": made.server or request.server, "auth_type": request.auth_type})

    def input_refs(self, obj: Login) -> InputRefs:
        config, keys = obj.spec.docker_config_secret_ref, obj.spec.credentials_secret_ref
        if config is not None:
            source = ValueSource(secret_key_ref=SecretKeyRef(name=config.name, key=KEY))
            return InputRefs(texts={_DOCKER_CONFIG: source})
        sources = () if keys is None else (EnvFromSource(secret_ref=EnvFromRef(name=keys.name)),)
        return InputRefs(env_from=sources, env_field="credentialsSecretRef")

    def unusable(self, obj: Login, inputs: Inputs) -> str | None:
        given = _given(obj.spec, inputs)
        return given if isinstance(given, str) else None

    def immutable(self, obj: Login) -> Mapping[str, JsonValue]:
        """Which Secret it is does not matter: what is in it does."""
        spec = obj.spec
        server = None if spec.server is None else same_server(spec.server)
        return {"server": server, "authType": spec.auth_type or AuthType.BASIC}

    def differences(self, obj: Login, observed: Credential) -> tuple[str, ...]:
        spec = obj.spec
        asked, has = (None if each is None else same_server(each) for each in (spec.server, observed.server))
        return differing(
            ("server", asked, has),
            ("authType", spec.auth_type or AuthType.BASIC, observed.auth_type),
        )


def _given(spec: RegistryCredentialSpec, inputs: Inputs) -> Mapping[str, object] | str:
    """What a create sends beside the name, or a sentence that says what is wrong with the Secret."""
    if spec.docker_config_secret_ref is not None:
        found = login(inputs.texts.get(_DOCKER_CONFIG, ""), spec.server)
        if isinstance(found, str):
            return f"{_DOCKER_CONFIG}: {KEY} of the Secret {spec.docker_config_secret_ref.name} cannot be used: {found}"
        credentials = dict(zip(_LOGIN, (found.username, found.password), strict=True))
        return {"server": spec.server or found.server, "auth_type": AuthType.BASIC.value, "credentials": credentials}
    auth_type, name = spec.auth_type or AuthType.BASIC, _name(spec.credentials_secret_ref)
    credentials = {key: value.rstrip("\r\n") for key, value in inputs.env.items()}
    missing = [key for key in _LOGIN if auth_type is AuthType.BASIC and not credentials.get(key, "").strip()]
    if missing or not any(map(str.strip, credentials.values())):
        lacks = f"the key {' and the key '.join(missing)}" if missing else "anything to log in with"
        return f"credentialsSecretRef: the Secret {name} lacks {lacks}"
    return {"server": spec.server, "auth_type": auth_type.value, "credentials": credentials}


def _name(ref: LocalRef | None) -> str:
    return "" if ref is None else ref.name
