"""Which addresses a tool executor may have (section 2, "Tool config": internal and private ones are rejected)."""

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Final

_TRANSLATED: Final = IPv6Network("64:ff9b::/96")
_TRANSLATED_LOCALLY: Final = IPv6Network("64:ff9b:1::/48")


@dataclass(frozen=True, slots=True)
class Reach:
    """Which addresses may be connected to."""

    public: bool
    loopback: bool

    def allows(self, address: IPv4Address | IPv6Address) -> bool:
        """Whether this address may be connected to."""
        for meant in _meant(address):
            if meant.is_loopback:
                if not self.loopback:
                    return False
            elif not self.public or not meant.is_global or meant.is_multicast or meant in _TRANSLATED_LOCALLY:
                return False
        return True


class AddressRefusedError(OSError):
    """A name or a connection led to an address that is not allowed."""


def check(reach: Reach, address: str) -> None:
    """Raises AddressRefusedError where this address may not be connected to."""
    if not reach.allows(ip_address(address.partition("%")[0])):
        raise AddressRefusedError("the address is internal or private")


def _meant(address: IPv4Address | IPv6Address) -> tuple[IPv4Address | IPv6Address, ...]:
    """The addresses that a packet to this one may end at."""
    if isinstance(address, IPv4Address):
        return (address,)
    if address.ipv4_mapped is not None:
        return (address.ipv4_mapped,)
    if address in _TRANSLATED:
        return (IPv4Address(int(address) & 0xFFFF_FFFF),)
    inner = [address.sixtofour] if address.sixtofour else list(address.teredo or ())
    return (address, *inner)
