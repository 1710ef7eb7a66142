"""Reads the Secrets and ConfigMaps that a create needs: by GET, from the object's own namespace, never stored."""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from relay_kube.kube import CONFIG_MAPS, SECRETS, Kube, NotFound, ResourceType
from relay_operator.api.parts import EnvFromSource
from relay_operator.api.public_keys import fingerprint
from relay_operator.api.references import ValueSource
from relay_operator.engine import manifests
from relay_operator.flows.managed.memory import ManagedMemory
from relay_operator.flows.managed.registered_keys import RegisteredKey
from relay_operator.flows.managed.resource import InputRefs

_WORDS = {SECRETS.plural: "Secret", CONFIG_MAPS.plural: "ConfigMap"}
_ROUNDS = 20_000
"""Rounds of the digest's key derivation: more people read status than the Secret, and it must not help to guess it."""


@dataclass(frozen=True, slots=True)
class ReadInputs:
    """All inputs that the spec refers to."""

    env: Mapping[str, str] = field(repr=False)
    ssh_keys: tuple[str, ...]
    texts: Mapping[str, str] = field(repr=False)
    digest: str
    """Digest of what came from Secrets and ConfigMaps; empty if nothing did."""


_NONE = ReadInputs({}, (), {}, "")


@dataclass(frozen=True, slots=True)
class MissingInput:
    """A message that names what is missing."""

    message: str


@dataclass(slots=True)
class _Sources:
    """What one pass read; each object is read once."""

    kube: Kube
    namespace: str
    data: dict[tuple[str, str], Mapping[str, str] | None] = field(default_factory=dict)

    async def read(self, kind: ResourceType, name: str) -> Mapping[str, str] | None:
        key = (kind.plural, name)
        if key not in self.data:
            self.data[key] = await self._get(kind, name)
        return self.data[key]

    async def _get(self, kind: ResourceType, name: str) -> Mapping[str, str] | None:
        try:
            raw = await self.kube.get(kind, self.namespace, name)
        except NotFound:
            return None
        return manifests.texts(raw.get("data"), encoded=kind is SECRETS)


class _MissingError(Exception):
    """Carries the message out of the loops below."""


@dataclass(slots=True)
class InputReader:
    """Resolves `env`, `envFrom`, `sshKeysFrom` and `sshKeyRefs`."""

    kube: Kube

    async def read(
        self,
        namespace: str,
        refs: InputRefs,
        salt: str,
        memory: ManagedMemory,
        registered: Sequence[RegisteredKey] = (),
    ) -> ReadInputs | MissingInput:
        """Read all inputs; `salt` keys the digest, `registered` are the keys of `refs.registered`.

        Raises KubeError if the API server cannot be asked.
        """
        if not (refs.any or refs.env):
            return _NONE
        sources = _Sources(self.kube, namespace)
        borrowed: dict[str, str] = {}
        try:
            for source in refs.env_from:
                borrowed |= await _all_of(sources, source, refs.env_field)
            referenced = {
                item.name: value
                for item in refs.env
                if item.value_from is not None
                and (value := await _value(sources, item.value_from, f"env {item.name}")) is not None
            }
            ssh_keys = [
                value for ref in refs.ssh_keys if (value := await _value(sources, ref, refs.keys_field)) is not None
            ]
            ssh_keys += [await _registered(sources, key) for key in registered]
            texts = {
                name: value
                for name, ref in refs.texts.items()
                if (value := await _value(sources, ref, name)) is not None
            }
        except _MissingError as missing:
            return MissingInput(str(missing))
        if any("PRIVATE KEY" in key or "PuTTY-User-Key-File" in key for key in ssh_keys):
            return MissingInput(f"{refs.keys_field} leads to a private key, which is not sent: refer to the public one")
        foreign = {**borrowed, **referenced, **{f"ssh/{index}": key for index, key in enumerate(ssh_keys)}}
        foreign |= {f"text/{name}": text for name, text in texts.items()}
        digest = await _digest(foreign, salt, memory)
        literal = {item.name: item.value for item in refs.env if item.value is not None}
        return ReadInputs({**borrowed, **literal, **referenced}, tuple(ssh_keys), texts, digest)


async def _all_of(sources: _Sources, source: EnvFromSource, field_name: str) -> dict[str, str]:
    prefix = source.prefix or ""
    for kind, ref in ((SECRETS, source.secret_ref), (CONFIG_MAPS, source.config_map_ref)):
        if ref is None:
            continue
        data = await sources.read(kind, ref.name)
        if data is None and not source.optional:
            raise _MissingError(f"{field_name}: {_WORDS[kind.plural]} {ref.name} does not exist in {sources.namespace}")
        return {prefix + name: value for name, value in (data or {}).items()}
    return {}


async def _value(sources: _Sources, source: ValueSource, asking: str) -> str | None:
    """The value of a reference; None if it is optional and missing. `asking` is the variable or field that has it."""
    for kind, ref in ((SECRETS, source.secret_key_ref), (CONFIG_MAPS, source.config_map_key_ref)):
        if ref is None:
            continue
        data = await sources.read(kind, ref.name)
        value = None if data is None else data.get(ref.key)
        if value is None and not source.optional:
            absent = "does not exist" if data is None else f"has no text at key {ref.key!r}"
            raise _MissingError(f"{asking}: {_WORDS[kind.plural]} {ref.name} in {sources.namespace} {absent}")
        return value
    return None


async def _registered(sources: _Sources, key: RegisteredKey) -> str:
    """The registered key: another one, which its Secret may have by now, would not give access."""
    text = key.source if isinstance(key.source, str) else await _value(sources, key.source, f"SshKey {key.name}") or ""
    if key.fingerprint is not None and fingerprint(text) != key.fingerprint:
        raise _MissingError(
            f"SshKey {key.name} is registered as {key.fingerprint}, and its source has another key now: "
            "put the former key back, or set updateStrategy.type: Recreate there"
        )
    return text.strip()


async def _digest(values: Mapping[str, str], salt: str, memory: ManagedMemory) -> str:
    """The digest of the values; derived, which takes milliseconds, only if a value or the salt changed."""
    if not values:
        return ""
    text = "\0".join(f"{name}={value}" for name, value in sorted(values.items())).encode()
    marker = hashlib.sha256(f"{salt}|".encode() + text).digest()
    if memory.env_digest[0] != marker:
        raw = await asyncio.to_thread(hashlib.pbkdf2_hmac, "sha256", text, salt.encode(), _ROUNDS, 8)
        memory.env_digest = (marker, raw.hex())
    return memory.env_digest[1]
