"""Reads the login from a Secret of the type `kubernetes.io/dockerconfigjson`. Pure; no message quotes the Secret."""

import base64
from dataclasses import dataclass, field
from typing import Final

from pydantic import Field, ValidationError

from relay_client.crowding import is_crowded
from relay_operator.api.meta import Model

KEY: Final = ".dockerconfigjson"
"""The key of such a Secret."""
_HUB: Final = "index.docker.io/v1"
_NAMES_OF_THE_HUB: Final = frozenset({"docker.io", "index.docker.io", "registry-1.docker.io"})
_MOST_VALUES: Final = 2_000
"""The most in a file: a Secret has room for a hundred thousand, which take half a second to decode."""
_NOT_WRITTEN: Final = "it is not what `docker login` writes"


class _Login(Model):
    username: str = Field("", repr=False)
    password: str = Field("", repr=False)
    auth: str = Field("", repr=False)


class _File(Model):
    auths: dict[str, _Login] = Field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Login:
    """User and password for one server; `server` is the name that the file uses."""

    server: str
    username: str = field(repr=False)
    password: str = field(repr=False)


def same_server(server: str | None) -> str | None:
    """One text for all names of a registry: with or without a scheme, and for each name of Docker Hub."""
    if server is None:
        return None
    scheme, separator, rest = server.strip().lower().partition("://")
    bare = (rest if separator else scheme).rstrip("/")
    return _HUB if bare in _NAMES_OF_THE_HUB else bare


def login(text: str, server: str | None) -> Login | str:
    """The login for `server`, or for the file's only server; if there is none, a message that says what is wrong."""
    if is_crowded(text.encode(), _MOST_VALUES):
        return f"{_NOT_WRITTEN}, with more than {_MOST_VALUES} values: leave in it only the servers that are used"
    try:
        auths = _File.model_validate_json(text).auths
    except ValidationError:
        return f'{_NOT_WRITTEN}: {{"auths": {{"<server>": {{"auth": "..."}}}}}}'
    names = {name: bare for name in auths if (bare := same_server(name))}
    servers = set(names.values())
    if not servers:
        return "it names no server"
    if server is None and len(servers) > 1:
        return f"it names {len(servers)} servers: say in spec.server which of them this is for, one object for each"
    wanted = servers.pop() if server is None else same_server(server)
    name = next((name for name, bare in names.items() if bare == wanted), None)
    if name is None:
        return f"it does not name the server {server}"
    username, password = _pair(auths[name])
    if not (username and password):
        return "it has no user and password for the server; the cloud takes no tokens and no credential helpers"
    return Login(name, username, password)


def _pair(entry: _Login) -> tuple[str, str]:
    """User and password, from their own fields or from `auth`; empty if both are missing."""
    if entry.username and entry.password:
        return entry.username, entry.password
    try:
        username, _, password = base64.b64decode(entry.auth, validate=True).decode().partition(":")
    except ValueError:  # not base64, or not UTF-8
        return "", ""
    return username, password
