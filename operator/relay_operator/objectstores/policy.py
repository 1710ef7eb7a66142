"""What the administrator lets batches reach: folders, and networks that are not public. Pure."""

from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import PurePosixPath
from typing import TypeAlias

Network: TypeAlias = IPv4Network | IPv6Network


@dataclass(frozen=True, slots=True)
class StorePolicy:
    """Nothing but public addresses unless said otherwise."""

    file_roots: tuple[PurePosixPath, ...] = ()
    private_networks: tuple[Network, ...] = ()


def file_root(text: str) -> PurePosixPath:
    """Reads a folder that `file:` URLs may name; raises ValueError."""
    path = PurePosixPath(text)
    if not path.is_absolute() or ".." in path.parts or path == PurePosixPath("/"):
        raise ValueError(f"{text!r} must be an absolute path below /, without '..'")
    return path


def private_network(text: str) -> Network:
    """Reads a network in CIDR notation; raises ValueError."""
    try:
        return ip_network(text)
    except ValueError:
        raise ValueError(
            f"{text!r} must be a network, as in 10.20.0.0/16 or fd00:1::/64, with no host bits set"
        ) from None
