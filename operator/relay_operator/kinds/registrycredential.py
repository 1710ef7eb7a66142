"""RegistryCredential: the login for pulling private images from one registry (section 2, "Registry credential")."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from pydantic import Field, JsonValue

from relay_client import Cloud, operations
from relay_operator.api.definition import RECORD_COLUMNS, Column, definition_of
from relay_operator.api.meta import CreateIntent, Resource
from relay_operator.api.references import LocalRef
from relay_operator.api.schema import exactly_one, rules
from relay_operator.api.workload import NEVER_STOPPED, SAME_ACCOUNT, ManagedSpec, SupersedingStatus
from relay_operator.flows.managed.resource import InputRefs, Inputs
from relay_operator.kinds.comparison import differing
from relay_operator.kinds.docker_config import same_server
from relay_operator.kinds.records import Records
from relay_operator.kinds.registry_login import AuthType, given, sources
from relay_wire.registry_credentials import RegistryCredential as Credential
from relay_wire.registry_credentials import RegistryCredentialCreate


class RegistryCredentialSpec(ManagedSpec):
    """Which registry, and how to log in to it."""

    model_config = rules(
        SAME_ACCOUNT,
        NEVER_STOPPED,
        exactly_one("dockerConfigSecretRef", "credentialsSecretRef"),
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
        None, description="How to log in with credentialsSecretRef: basic, aws_ecr or gcp_gcr."
    )
    credentials_secret_ref: LocalRef | None = Field(
        None,
        description="A Secret with the login: username and password for basic; for the others, the keys that the "
        "cloud asks for.",
    )


class RegistryCredentialStatus(SupersedingStatus):
    """What the cloud says about one credential."""

    server: str | None = Field(None, max_length=255, description="The registry that it is for.")
    auth_type: str | None = Field(None, max_length=64, description="How the registry is logged in to.")


class RegistryCredential(Resource[RegistryCredentialSpec, RegistryCredentialStatus]):
    """One credential."""

    kind: Literal["RegistryCredential"] = "RegistryCredential"


DEFINITION = definition_of(
    RegistryCredential,
    "rcred",
    summary="The login, from a Secret, with which the cloud pulls private images from one registry.",
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
        login = given(obj.spec, inputs)
        assert not isinstance(login, str), "what cannot be used is not sent"
        request = RegistryCredentialCreate.model_validate({"name": intent.name, **login})
        made = await cloud.call(operations.CREATE_REGISTRY_CREDENTIAL, request)
        return made.model_copy(update={"server": made.server or request.server, "auth_type": request.auth_type})

    def input_refs(self, obj: Login) -> InputRefs:
        return sources(obj.spec)

    def unusable(self, obj: Login, inputs: Inputs) -> str | None:
        login = given(obj.spec, inputs)
        return login if isinstance(login, str) else None

    def immutable(self, obj: Login) -> Mapping[str, JsonValue]:
        """Leaves out which Secret holds the login, since only the login itself matters."""
        return {"server": same_server(obj.spec.server), "authType": obj.spec.auth_type or AuthType.BASIC}

    def differences(self, obj: Login, observed: Credential) -> tuple[str, ...]:
        asked = self.immutable(obj)
        has = {"server": same_server(observed.server), "authType": observed.auth_type}
        return differing(*((field, asked[field], has[field]) for field in asked))
