"""Credentials for an API server: those of a kubeconfig, or the ServiceAccount of the Pod that this process runs in."""

import base64
import os
import socket
import ssl
import sys
import tempfile
import time
from binascii import Error as NotBase64
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

import aiohttp
import yaml
from aiohttp import AddrInfoType
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from relay_kube.kube import ApiAccess

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_READ_AGAIN_SECONDS: Final = 60.0
"""How long a token is cached; a Pod gets a new token long before the old one expires."""


class AccessError(Exception):
    """There are no credentials, or they cannot be used; the message says why, and quotes none of them."""


@dataclass(slots=True)
class FileToken:
    """A token in a file, which is read again every _READ_AGAIN_SECONDS."""

    path: Path
    clock: Callable[[], float] = time.monotonic
    _kept: str = ""
    _read_at: float | None = None

    def __call__(self) -> str:
        """The token, or the former one if the file cannot be read. Raises AccessError if it never could be."""
        now = self.clock()
        if self._read_at is None or now - self._read_at >= _READ_AGAIN_SECONDS:
            try:
                self._kept, self._read_at = self.path.read_text().strip(), now
            except OSError as error:
                if self._read_at is None:
                    raise AccessError(f"the token {self.path} cannot be read: {error.strerror}") from None
        return self._kept


@dataclass(frozen=True, slots=True)
class Login:
    """An API server and the credentials for it."""

    server: str
    tls: ssl.SSLContext = field(repr=False)
    token: Callable[[], str] | None = field(default=None, repr=False)
    proxy: str | None = None

    def headers(self) -> Mapping[str, str]:
        """The headers that authenticate a request."""
        return {} if self.token is None else {"Authorization": f"Bearer {self.token()}"}


def login(kubeconfig: Path | None) -> Login:
    """The login of a kubeconfig, or of the Pod's ServiceAccount if that is None. Raises AccessError."""
    return of_pod() if kubeconfig is None else of_kubeconfig(kubeconfig)


def of_pod(folder: Path = SERVICE_ACCOUNT, environment: Mapping[str, str] = os.environ) -> Login:
    """The login of the ServiceAccount of the Pod that this process runs in. Raises AccessError."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT", "443")
    if host is None:
        raise AccessError("this process does not run in a Pod: name a kubeconfig")
    token = FileToken(folder / "token")
    token()
    try:
        tls = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    except OSError as error:
        raise AccessError(f"the certificates {folder / 'ca.crt'} cannot be read: {error}") from None
    return Login(f"https://{f'[{host}]' if ':' in host else host}:{port}", tls, token)


def of_kubeconfig(path: Path) -> Login:
    """The login of the current context. Raises AccessError, also for a way to log in that is not supported."""
    try:
        config = _Kubeconfig.model_validate(yaml.safe_load(path.read_text()))
        context = _named(config.contexts, config.current_context).context
        cluster, user = _named(config.clusters, context.cluster).cluster, _named(config.users, context.user).user
        tls = _tls(cluster, user, path.parent)
    except ssl.SSLError as error:
        raise AccessError(f"the kubeconfig {path} cannot be used: a certificate or key is invalid: {error}") from None
    except OSError as error:
        raise AccessError(f"the kubeconfig {path} cannot be used: {error.strerror}: {error.filename}") from None
    except (LookupError, NotBase64, UnicodeDecodeError, ValidationError, yaml.YAMLError) as error:
        raise AccessError(
            f"the kubeconfig {path} cannot be used ({type(error).__name__}): it needs a current-context, whose cluster "
            "and user are in it"
        ) from None
    if any((user.exec, user.auth_provider, user.username, user.impersonated)):
        raise AccessError(
            f"the kubeconfig {path} logs in by a plugin, by a password or as somebody else: name one with a token or a "
            "client certificate"
        )
    return Login(cluster.server.rstrip("/"), tls, _token(user, path.parent), cluster.proxy_url)


@asynccontextmanager
async def opened(who: Login, agent: str) -> AsyncIterator[ApiAccess]:
    """Yields connections to the API server, without a limit on their number; they close with the context."""
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=who.tls, socket_factory=_kept_alive),
        headers={"User-Agent": agent},
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=2**21,  # holds a whole object of a watch
    ) as session:
        yield ApiAccess(who.server, session, who.headers, who.proxy)


def _kept_alive(address: AddrInfoType) -> socket.socket:
    """A socket that fails about a minute after its peer died silently: nothing else ends a log that is followed."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "linux":  # elsewhere the system's own times hold
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
    return made


def _dashed(name: str) -> str:
    return name.replace("_", "-")


class _Part(BaseModel):
    model_config = ConfigDict(alias_generator=_dashed, extra="ignore", frozen=True)


class _Server(_Part):
    server: str
    certificate_authority: Path | None = None
    certificate_authority_data: str | None = None
    insecure_skip_tls_verify: bool = False
    proxy_url: str | None = None


class _User(_Part):
    token: SecretStr | None = None
    token_file: Path | None = Field(default=None, alias="tokenFile")
    client_certificate: Path | None = None
    client_certificate_data: str | None = Field(default=None, repr=False)
    client_key: Path | None = None
    client_key_data: str | None = Field(default=None, repr=False)
    exec: object = None
    auth_provider: object = None
    username: object = None
    impersonated: object = Field(default=None, alias="as")


class _Context(_Part):
    cluster: str
    user: str


class _Named(_Part):
    name: str


class _NamedServer(_Named):
    cluster: _Server


class _NamedUser(_Named):
    user: _User = Field(repr=False)


class _NamedContext(_Named):
    context: _Context


class _Kubeconfig(_Part):
    current_context: str
    clusters: list[_NamedServer]
    users: list[_NamedUser]
    contexts: list[_NamedContext]


_NamedT = TypeVar("_NamedT", bound=_Named)


def _named(items: list[_NamedT], name: str) -> _NamedT:
    found = next((item for item in items if item.name == name), None)
    if found is None:
        raise LookupError(name)
    return found


def _token(user: _User, folder: Path) -> Callable[[], str] | None:
    if user.token is not None:
        return user.token.get_secret_value
    if user.token_file is None:
        return None
    token = FileToken(folder / user.token_file)
    token()
    return token


def _tls(server: _Server, user: _User, folder: Path) -> ssl.SSLContext:
    """The TLS context; paths are relative to the kubeconfig's folder."""
    authority, data = server.certificate_authority, server.certificate_authority_data
    tls = ssl.create_default_context(
        cafile=None if authority is None or data is not None else str(folder / authority),
        cadata=None if data is None else base64.b64decode(data).decode(),
    )
    if server.insecure_skip_tls_verify:
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    if user.client_certificate_data is not None and user.client_key_data is not None:
        with tempfile.TemporaryDirectory() as own:  # ssl reads client certificates only from files
            certificate, key = Path(own) / "tls.crt", Path(own) / "tls.key"
            certificate.write_bytes(base64.b64decode(user.client_certificate_data))
            key.write_bytes(base64.b64decode(user.client_key_data))
            tls.load_cert_chain(certificate, key)
    elif user.client_certificate is not None and user.client_key is not None:
        tls.load_cert_chain(folder / user.client_certificate, folder / user.client_key)
    return tls
