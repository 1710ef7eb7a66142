"""Reads the Secrets and ConfigMaps that a create needs: by GET, from the object's own namespace, never stored."""

import asyncio
import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from relay_kube.errors import NotFound
from relay_kube.kube import CONFIG_MAPS, SECRETS, Kube, ResourceType
from relay_operator.api.parts import EnvFromSource
from relay_operator.api.public_keys import fingerprint
from relay_operator.api.references import ValueSource
from relay_operator.engine import manifests
from relay_operator.engine.manifests import WORDS
from relay_operator.flows.managed.memory import ManagedMemory
from relay_operator.flows.managed.registered_keys import RegisteredKey
from relay_operator.flows.managed.resource import InputRefs

_ROUNDS = 20_000
"""Rounds of the digest's key derivation: more people read status than the Secret, and it must not help to guess it."""

MAX_BYTES: Final = 1024**2
"""The most that one object may take from Secrets and ConfigMaps: the API allows hundreds of them, of a MiB each."""
_BESIDE: Final = 128
"""What each value counts for beside its key and text: its prefix, and Python's own share."""
_AT_ONCE: Final = 8
"""Secrets and ConfigMaps in memory at once: each comes whole, with whatever else it holds."""

_Asked: TypeAlias = Mapping[tuple[str, str], Counter[str | None]]
"""By plural and name of an object: how often each of its keys is asked for; None stands for all of its keys."""


def limited_reads() -> asyncio.Semaphore:
    """Lets a few reads through at once; for all readers of a process."""
    return asyncio.Semaphore(_AT_ONCE)


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


class _MissingError(Exception):
    """Carries the message out of the loops below."""


@dataclass(slots=True)
class _Sources:
    """What one pass read: each object once, and of each what is asked for."""

    kube: Kube
    namespace: str
    asked: _Asked
    reads: asyncio.Semaphore
    data: dict[tuple[str, str], Mapping[str, str] | None] = field(default_factory=dict)
    taken: int = 0

    async def read(self, kind: ResourceType, name: str) -> Mapping[str, str] | None:
        """The texts of the object that are asked for; None if it does not exist."""
        key = (kind.plural, name)
        if key not in self.data:
            self.data[key] = await self._get(kind, name)
        return self.data[key]

    async def _get(self, kind: ResourceType, name: str) -> Mapping[str, str] | None:
        asked = self.asked[kind.plural, name]
        async with self.reads:
            try:
                raw = await self.kube.get(kind, self.namespace, name)
            except NotFound:
                return None
            found = manifests.texts(raw.get("data"), encoded=kind is SECRETS)
        found = {key: text for key, text in found.items() if asked[None] or asked[key]}
        # Counted as often as it is used, since prefixes and names make an environment larger than what was read.
        for key, text in found.items():
            self.taken += (asked[None] + asked[key]) * (_BESIDE + len(key) + len(text.encode()))
        if self.taken > MAX_BYTES:
            raise _MissingError(
                f"with {WORDS[kind.plural]} {name} in {self.namespace}, the spec takes {self.taken >> 10} KiB "
                f"from Secrets and ConfigMaps, more than {MAX_BYTES >> 10} KiB: refer to fewer keys, or to smaller ones"
            )
        return found


@dataclass(slots=True)
class InputReader:
    """Resolves `env`, `envFrom`, `sshKeysFrom` and `sshKeyRefs`."""

    kube: Kube
    reads: asyncio.Semaphore = field(default_factory=limited_reads)

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
        sources = _Sources(self.kube, namespace, _asked(refs, registered), self.reads)
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


def _asked(refs: InputRefs, registered: Sequence[RegisteredKey]) -> _Asked:
    asked = defaultdict[tuple[str, str], Counter[str | None]](Counter)
    for whole in refs.env_from:
        for kind, all_keys in ((SECRETS, whole.secret_ref), (CONFIG_MAPS, whole.config_map_ref)):
            if all_keys is not None:
                asked[kind.plural, all_keys.name][None] += 1
    values = [*(item.value_from for item in refs.env), *refs.ssh_keys, *refs.texts.values()]
    for value in (*values, *(key.source for key in registered)):
        if isinstance(value, ValueSource):
            for kind, one_key in ((SECRETS, value.secret_key_ref), (CONFIG_MAPS, value.config_map_key_ref)):
                if one_key is not None:
                    asked[kind.plural, one_key.name][one_key.key] += 1
    return asked


async def _all_of(sources: _Sources, source: EnvFromSource, field_name: str) -> dict[str, str]:
    prefix = source.prefix or ""
    for kind, ref in ((SECRETS, source.secret_ref), (CONFIG_MAPS, source.config_map_ref)):
        if ref is None:
            continue
        data = await sources.read(kind, ref.name)
        if data is None and not source.optional:
            raise _MissingError(
                f"{field_name}: {WORDS[kind.plural]} {ref.name} does not exist in the namespace {sources.namespace}"
            )
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
            raise _MissingError(f"{asking}: {WORDS[kind.plural]} {ref.name} in {sources.namespace} {absent}")
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
