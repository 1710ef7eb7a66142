"""The login for a registry, from a Docker config or the keys of a Secret. Pure; no message quotes a Secret."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Protocol

from relay_operator.api.parts import EnvFromRef, EnvFromSource
from relay_operator.api.references import LocalRef, SecretKeyRef, ValueSource
from relay_operator.flows.managed.resource import InputRefs, Inputs
from relay_operator.kinds.docker_config import KEY, login

_DOCKER_CONFIG: Final = "dockerConfigSecretRef"
_CREDENTIALS: Final = "credentialsSecretRef"
_LOGIN: Final = ("username", "password")
"""Keys that `basic` needs."""


class AuthType(StrEnum):
    """How to log in to the registry, by the cloud's names."""

    BASIC = "basic"
    AWS_ECR = "aws_ecr"
    GCP_GCR = "gcp_gcr"


class AsksLogin(Protocol):
    """A spec that names the registry and one of two Secrets with its login."""

    @property
    def server(self) -> str | None: ...
    @property
    def auth_type(self) -> AuthType | None: ...
    @property
    def docker_config_secret_ref(self) -> LocalRef | None: ...
    @property
    def credentials_secret_ref(self) -> LocalRef | None: ...


def sources(spec: AsksLogin) -> InputRefs:
    """The Secret to read: one key of a Docker config, or all keys."""
    config, keys = spec.docker_config_secret_ref, spec.credentials_secret_ref
    if config is not None:
        source = ValueSource(secret_key_ref=SecretKeyRef(name=config.name, key=KEY))
        return InputRefs(texts={_DOCKER_CONFIG: source})
    env_from = () if keys is None else (EnvFromSource(secret_ref=EnvFromRef(name=keys.name)),)
    return InputRefs(env_from=env_from, env_field=_CREDENTIALS)


def given(spec: AsksLogin, inputs: Inputs) -> Mapping[str, object] | str:
    """What a create sends beside the name; if the Secret cannot be used, a message that says why."""
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
        return f"{_CREDENTIALS}: the Secret {name} lacks {lacks}"
    return {"server": spec.server, "auth_type": auth_type.value, "credentials": credentials}


def _name(ref: LocalRef | None) -> str:
    return "" if ref is None else ref.name
