"""SshKey: a public key registered with the organization (section 2, "misc requests")."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from pydantic import Field, JsonValue

from relay_client import Cloud, operations
from relay_operator.api.definition import RECORD_COLUMNS, Column, definition_of
from relay_operator.api.meta import CreateIntent, Resource
from relay_operator.api.public_keys import NO_PRIVATE_KEY, OPENSSH, fingerprint
from relay_operator.api.references import ValueSource
from relay_operator.api.schema import exactly_one, field_rules, rules
from relay_operator.api.workload import NEVER_STOPPED, SAME_ACCOUNT, ManagedSpec, ManagedStatus
from relay_operator.flows.managed.resource import InputRefs, Inputs
from relay_operator.kinds.comparison import as_written, differing
from relay_operator.kinds.records import Records
from relay_wire.ssh_keys import SshKey as RegisteredKey
from relay_wire.ssh_keys import SshKeyCreate


class SshKeySpec(ManagedSpec):
    """The public key, or where to read it."""

    model_config = rules(SAME_ACCOUNT, NEVER_STOPPED, exactly_one("publicKey", "publicKeyFrom"))

    public_key: str | None = Field(
        None,
        min_length=1,
        max_length=16_384,
        json_schema_extra=field_rules(NO_PRIVATE_KEY, OPENSSH),
        description="The public key, as OpenSSH writes it.",
    )
    public_key_from: ValueSource | None = Field(None, description="The public key, read from a Secret or ConfigMap.")


class SshKeyStatus(ManagedStatus):
    """What the cloud says about one key."""

    fingerprint: str | None = Field(None, max_length=64, description="Its fingerprint, as `ssh-keygen -l` shows it.")


class SshKey(Resource[SshKeySpec, SshKeyStatus]):
    """One key."""

    kind: Literal["SshKey"] = "SshKey"


DEFINITION = definition_of(
    SshKey,
    "sshk",
    summary="A public key that is registered with the organization: its SSH gateway lets the owner in.",
    columns=(Column("Fingerprint", ".status.fingerprint"), *RECORD_COLUMNS),
)

Key: TypeAlias = Resource[SshKeySpec, SshKeyStatus]


class SshKeys(Records[SshKeySpec, SshKeyStatus, RegisteredKey]):
    """How an SshKey maps to a key of the organization."""

    definition = DEFINITION
    model = SshKey
    list_operation = operations.LIST_SSH_KEYS
    delete_operation = operations.DELETE_SSH_KEY

    async def create(self, cloud: Cloud, obj: Key, intent: CreateIntent, inputs: Inputs) -> RegisteredKey:
        text = obj.spec.public_key or "".join(inputs.ssh_keys)
        made = await cloud.call(operations.CREATE_SSH_KEY, SshKeyCreate(name=intent.name, public_key=text.strip()))
        return made.model_copy(update={"public_key": made.public_key or text})

    def input_refs(self, obj: Key) -> InputRefs:
        source = obj.spec.public_key_from
        return InputRefs(ssh_keys=() if source is None else (source,), keys_field="publicKeyFrom")

    def unusable(self, obj: Key, inputs: Inputs) -> str | None:
        if obj.spec.public_key or fingerprint("".join(inputs.ssh_keys)):
            return None
        return "publicKeyFrom: what it leads to is not an OpenSSH public key"

    def immutable(self, obj: Key) -> Mapping[str, JsonValue]:
        spec = obj.spec
        return {"publicKey": fingerprint(spec.public_key), "publicKeyFrom": as_written(spec.public_key_from)}

    def differences(self, obj: Key, observed: RegisteredKey) -> tuple[str, ...]:
        return differing(("publicKey", fingerprint(obj.spec.public_key), fingerprint(observed.public_key)))

    def told(self, obj: Key, observed: RegisteredKey) -> Mapping[str, object]:
        return {"fingerprint": fingerprint(observed.public_key) or obj.status.fingerprint}
