"""Which addresses are public, and which others the administrator allows to batches. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from pathlib import PurePosixPath
from typing import TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network


@dataclass(frozen=True, slots=True)
class StorePolicy:
    """What the administrator allows besides public addresses; empty: nothing."""

    file_roots: tuple[PurePosixPath, ...] = ()
    private_networks: tuple[Network, ...] = ()


def file_root(text: str) -> PurePosixPath:
    """Parse a folder that `file:` URLs may name; raises ValueError."""
    path = PurePosixPath(text)
    if not path.is_absolute() or ".." in path.parts or path == PurePosixPath("/"):
        raise ValueError(f"{text!r} must be an absolute path below /, without '..'")
    return path


def private_network(text: str) -> Network:
    """Parse a network in CIDR notation, of which one of its addresses may be given; raises ValueError."""
    try:
        return ip_network(text, strict=False)
    except ValueError:
        raise ValueError(f"{text!r} must be a network, as in 10.20.0.0/16 or fd00:1::/64") from None


# The IANA special-purpose registries, written out, since `ipaddress` differs between Python's releases.
_SPECIAL: tuple[tuple[str, str], ...] = (
    ("0.0.0.0/8", "an address of this host"),
    ("10.0.0.0/8", "a private address"),
    ("100.64.0.0/10", "a shared address"),
    ("127.0.0.0/8", "a loopback address"),
    ("168.63.129.16/32", "a metadata address"),  # of Azure, although the number is public
    ("169.254.0.0/16", "a link-local or metadata address"),
    ("172.16.0.0/12", "a private address"),
    ("192.0.0.0/24", "a reserved address"),
    ("192.0.2.0/24", "an address for documentation"),
    ("192.88.99.0/24", "a reserved address"),
    ("192.168.0.0/16", "a private address"),
    ("198.18.0.0/15", "an address for benchmarks"),
    ("198.51.100.0/24", "an address for documentation"),
    ("203.0.113.0/24", "an address for documentation"),
    ("224.0.0.0/4", "a multicast address"),
    ("240.0.0.0/4", "a reserved address"),
    ("::/128", "an address of this host"),
    ("::1/128", "a loopback address"),
    ("2001::/23", "a reserved address"),  # includes Teredo, whose addresses contain an IPv4 address
    ("2001:db8::/32", "an address for documentation"),
    ("2002::/16", "a 6to4 address"),
    ("3fff::/20", "an address for documentation"),
    ("fc00::/7", "a private address"),
    ("fe80::/10", "a link-local address"),
    ("ff00::/8", "a multicast address"),
)
_REFUSED = tuple((ip_network(network), what) for network, what in _SPECIAL)
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")


def why_not_public(address: Address, allowed: Iterable[Network]) -> str | None:
    """The kind of an address that may not be connected to; None if it may."""
    plain = _unwrapped(address)
    if within(plain, allowed):
        return None
    for network, what in _REFUSED:
        if plain in network:
            return what
    if isinstance(plain, IPv6Address) and plain not in _GLOBAL_UNICAST:
        return "a reserved address"
    return None


def within(address: Address, allowed: Iterable[Network]) -> bool:
    """Whether the address is in a network that the administrator allowed."""
    plain = _unwrapped(address)
    return any(plain in network for network in allowed)


def _unwrapped(address: Address) -> Address:
    """The IPv4 address inside an IPv6 address, if any, since a connection reaches that one."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return IPv6Address(int(address))  # without a zone, since no network contains an address with one
