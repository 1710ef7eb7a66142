"""References to other objects, and to keys in them."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Final, TypeAlias

from pydantic import Field

from relay_operator.api.meta import Model
from relay_operator.api.schema import exactly_one, rules

ObjectName: TypeAlias = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]
NamespaceName: TypeAlias = Annotated[
    str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
]
DataKey: TypeAlias = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$")]
LabelKey: TypeAlias = Annotated[
    str,
    Field(
        min_length=1, max_length=317, pattern=r"^([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
    ),
]
LabelValue: TypeAlias = Annotated[str, Field(max_length=63, pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$")]


class AccountKind(StrEnum):
    """Which kind of account an object uses."""

    CLOUD_ACCOUNT = "CloudAccount"
    CLUSTER_CLOUD_ACCOUNT = "ClusterCloudAccount"


class AccountRef(Model):
    """The account whose key is used and whose organization pays."""

    kind: AccountKind = Field(
        AccountKind.CLOUD_ACCOUNT, description="CloudAccount of the same namespace, or ClusterCloudAccount."
    )
    name: ObjectName = Field(description="Name of the account.")


class SecretKeyRef(Model):
    """One key of a Secret in the object's own namespace."""

    name: ObjectName = Field(description="Name of the Secret.")
    key: DataKey = Field(description="Key in it.")


class SecretSource(Model):
    """Where to read a secret from."""

    secret_key_ref: SecretKeyRef = Field(description="A key of a Secret.")


class ConfigMapKeyRef(Model):
    """One key of a ConfigMap in the object's own namespace."""

    name: ObjectName = Field(description="Name of the ConfigMap.")
    key: DataKey = Field(description="Key in it.")


class LocalRef(Model):
    """An object of the operator's API in the same namespace."""

    name: ObjectName = Field(description="Its name.")


REFERENCES: Final[Mapping[str, str]] = {
    "sshKeyRefs": "SshKey",
    "registryCredentialRef": "RegistryCredential",
    "vmRef": "GpuVm",
    "nodeRef": "ProviderNode",
}
"""The fields of specs that refer to the operator's own objects, as `LocalRef` or a list of them, with their kinds."""


class HeldReference(Model):
    """An object that a cloud resource has been given, such as a key."""

    kind: str = Field(min_length=1, max_length=63, description="Its kind.")
    name: str = Field(min_length=1, max_length=253, description="Its name.")
    id: str = Field(min_length=1, max_length=253, description="The cloud's identifier, as it was then.")


class ValueSource(Model):
    """Where to read a text from; exactly one source."""

    model_config = rules(exactly_one("secretKeyRef", "configMapKeyRef"))

    secret_key_ref: SecretKeyRef | None = Field(None, description="A key of a Secret.")
    config_map_key_ref: ConfigMapKeyRef | None = Field(None, description="A key of a ConfigMap.")
    optional: bool = Field(False, description="Whether it may be missing; it is then left out.")


_ONE_NAME = (
    "has(self.name) ? !has(self.secretKeyRef) && !has(self.configMapKeyRef) && !has(self.optional) : "
    "has(self.secretKeyRef) != has(self.configMapKeyRef)"
)


class SshKeyRef(ValueSource):
    """An SshKey of the same namespace, by its name."""

    model_config = rules(
        (_ONE_NAME, "set name, that of an SshKey; what is read from a Secret or ConfigMap belongs in sshKeysFrom")
    )

    name: ObjectName | None = Field(None, description="Its name.")
    secret_key_ref: SecretKeyRef | None = Field(None, description="Former spelling of sshKeysFrom.")
    config_map_key_ref: ConfigMapKeyRef | None = Field(None, description="Former spelling of sshKeysFrom.")
    optional: bool = Field(False, description="Of the former spelling: whether it may be missing.")
