"""The HTTP proxies of the environment, through which the operator reaches clouds."""

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Self
from urllib.parse import urlsplit
from urllib.request import getproxies_environment

_SCHEMES = ("http", "https")


class ProxyError(Exception):
    """A variable does not name an HTTP proxy; the message leaves out its value, which may contain a password."""


@dataclass(frozen=True, slots=True)
class Proxies:
    """What HTTPS_PROXY, HTTP_PROXY and NO_PROXY say, in capitals or not; lower-case names win."""

    by_scheme: Mapping[str, str] = field(default_factory=dict, repr=False)
    direct: Collection[str] = ()
    """Hosts that are called directly, with all names below them; `*` means all."""

    @classmethod
    def of_environment(cls) -> Self:
        """Read the variables. Raises ProxyError."""
        named = getproxies_environment()
        proxies = {scheme: _http(scheme, named[scheme]) for scheme in _SCHEMES if scheme in named}
        direct = [host.strip().lower().removeprefix(".") for host in named.get("no", "").split(",")]
        return cls(proxies, [*filter(None, direct)])

    def __call__(self, url: str) -> str | None:
        """The proxy for requests to a URL; None if it is called directly, as this machine always is."""
        if not self.by_scheme:
            return None
        target = urlsplit(url)
        host = target.hostname or ""
        if _is_loopback(host) or any(host == each or host.endswith(f".{each}") or each == "*" for each in self.direct):
            return None
        return self.by_scheme.get(target.scheme)


def _is_loopback(host: str) -> bool:
    with suppress(ValueError):
        return host == "localhost" or ip_address(host).is_loopback
    return False


def _http(scheme: str, proxy: str) -> str:
    """The proxy as a URL; without a scheme, as other programs take it, it is spoken to by http."""
    url = proxy if "://" in proxy else f"http://{proxy}"
    try:
        parts = urlsplit(url)
        usable = parts.scheme in _SCHEMES and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ProxyError(
            f"{scheme.upper()}_PROXY must be the URL of an HTTP proxy, as in http://proxy.example.com:3128"
        )
    return url
