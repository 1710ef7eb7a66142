"""The operator's identity for the API server, in kopf's watches and in all other requests.

Only this module and `watch` import kopf.
"""

import os
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from urllib.request import getproxies

import aiohttp
import kopf
import yaml

from relay_kube.kube import ApiAccess

_READ_AGAIN_SECONDS = 60.0
"""Seconds between two reads of the token: a Pod gets a new one long before the old one expires."""


class CredentialsError(Exception):
    """There are no credentials, or they are unreadable; the message says what to do."""


def credentials() -> kopf.ConnectionInfo:
    """The credentials from KUBECONFIG; if it is not set, of the Pod's service account, else from ~/.kube/config.

    The API server of the Pod's own cluster is called directly, others through the environment's proxy.
    Raises CredentialsError, OSError.
    """
    settings = kopf.OperatorSettings()
    # trust_env makes every request read a netrc file, so set it only if the environment names a proxy.
    settings.networking.trust_env = bool(getproxies())
    sources = [_of_service_account, kopf.login_with_kubeconfig]
    if os.environ.get("KUBECONFIG"):
        sources.reverse()
    try:
        found = next(filter(None, (source(settings=settings) for source in sources)), None)
    except (AttributeError, LookupError, TypeError, ValueError, yaml.YAMLError, kopf.LoginError) as error:
        # The error's text may quote the file, which holds secrets.
        raise CredentialsError(
            f"the kubeconfig cannot be used ({type(error).__name__}): it needs a current-context, whose cluster and "
            "user are in it"
        ) from None
    if found is None:
        raise CredentialsError("there are no credentials for a Kubernetes API: run in a Pod, or set KUBECONFIG")
    return found


def _of_service_account(*, settings: kopf.OperatorSettings) -> kopf.ConnectionInfo | None:
    found = kopf.login_with_service_account(settings=settings)
    return None if found is None else replace(found, trust_env=False)


@dataclass(slots=True)
class _Headers:
    """The authentication headers, with the current token."""

    found: kopf.ConnectionInfo
    read_at: float
    clock: Callable[[], float]

    def __call__(self) -> Mapping[str, str]:
        now = self.clock()
        if now - self.read_at >= _READ_AGAIN_SECONDS:
            self.read_at = now
            with suppress(CredentialsError, OSError):
                self.found = credentials()
        return self.found.as_http_headers()


@asynccontextmanager
async def api_access(connections: int, clock: Callable[[], float] = time.monotonic) -> AsyncIterator[ApiAccess]:
    """At most so many connections to the API server, closed with the context. Raises CredentialsError, OSError."""
    found = credentials()
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=connections, ssl=found.as_ssl_context()),
        headers={"User-Agent": "relay-operator"},
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=2**21,  # a whole page of a list
        trust_env=found.trust_env,
    ) as session:
        yield ApiAccess(found.server.rstrip("/"), session, _Headers(found, clock(), clock), found.proxy_url)
