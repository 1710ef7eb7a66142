"""Who the operator is to the API server, in kopf's watches and in all other requests.

With `watch`, the only import of kopf.
"""

import os
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from urllib.request import getproxies

import aiohttp
import kopf
import yaml

from relay_kube.kube import ApiAccess

_CONNECTIONS = 100
_READ_AGAIN_SECONDS = 60.0
"""A Pod gets another token long before the one that it has ends."""


class CredentialsError(Exception):
    """There are none, or they cannot be read; the text says what to do."""


def credentials() -> kopf.ConnectionInfo:
    """Those of KUBECONFIG; if it is not set, of the Pod's service account, else of ~/.kube/config.

    Raises CredentialsError, OSError.
    """
    settings = kopf.OperatorSettings()
    # Without a proxy in the environment there is nothing to trust it for; with it, every request reads a netrc file.
    settings.networking.trust_env = bool(getproxies())
    sources = [kopf.login_with_service_account, kopf.login_with_kubeconfig]
    if os.environ.get("KUBECONFIG"):
        sources.reverse()
    try:
        found = next(filter(None, (source(settings=settings) for source in sources)), None)
    except (AttributeError, LookupError, TypeError, ValueError, yaml.YAMLError, kopf.LoginError) as error:
        # Its text may quote the file, which holds secrets.
        raise CredentialsError(
            f"the kubeconfig cannot be used ({type(error).__name__}): it needs a current-context, whose cluster and "
            "user are in it"
        ) from None
    if found is None:
        raise CredentialsError("there are no credentials for a Kubernetes API: run in a Pod, or set KUBECONFIG")
    return found


@dataclass(slots=True)
class _Headers:
    """What tells who asks, as it is by now."""

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
async def api_access(clock: Callable[[], float] = time.monotonic) -> AsyncIterator[ApiAccess]:
    """Connections to the API server, which end with the context. Raises CredentialsError, OSError."""
    found = credentials()
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=_CONNECTIONS, ssl=found.as_ssl_context()),
        headers={"User-Agent": "relay-operator"},
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=2**21,  # a page of a list at once
        trust_env=found.trust_env,
    ) as session:
        yield ApiAccess(found.server.rstrip("/"), session, _Headers(found, clock(), clock), found.proxy_url)
