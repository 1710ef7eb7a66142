"""The public keys of the SshKeys that a spec refers to, from the cache. Pure."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from pydantic import Field

from relay_operator.api.meta import Model, ObjectKey
from relay_operator.api.references import ValueSource
from relay_operator.engine.cache import Cache


@dataclass(frozen=True, slots=True)
class RegisteredKey:
    """One public key."""

    name: str
    source: ValueSource | str
    """The reference to its text, or the text itself."""
    fingerprint: str | None
    """The fingerprint that is registered with the organization; None if the cloud does not report it."""


class _Spec(Model):
    public_key: str = ""
    public_key_from: ValueSource | None = None


class _Status(Model):
    fingerprint: str | None = None


class _SshKey(Model):
    spec: _Spec = Field(default_factory=_Spec)
    status: _Status = Field(default_factory=_Status)


def registered_keys(
    cache: Cache, wanted: Iterable[ObjectKey], ready: Collection[ObjectKey]
) -> tuple[RegisteredKey, ...]:
    """The keys in the order of `wanted`, without those that are not `ready`."""
    known = ((key.name, cache.get(key)) for key in wanted if key in ready)
    read = ((name, _SshKey.model_validate_json(entry.body)) for name, entry in known if entry is not None)
    return tuple(
        RegisteredKey(name, key.spec.public_key_from or key.spec.public_key, key.status.fingerprint)
        for name, key in read
    )
