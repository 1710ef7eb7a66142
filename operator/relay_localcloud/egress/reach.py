"""Which addresses the cloud may connect to. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, Self, TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

_TRANSLATED: Final = IPv6Network("64:ff9b::/96")
_GLOBAL: Final = IPv6Network("2000::/3")
"""All global unicast addresses of IPv6; others, such as fec0::1 and ::7f00:1, are `is_global` in some Pythons."""
_NOT_PUBLIC: Final = (ip_network("168.63.129.16/32"), ip_network("192.0.0.0/24"))
"""Addresses that are `is_global`, at least in part: that of Azure's host, which serves nodes their secrets, and those
that are reserved for protocols of the IETF, at which Oracle's nodes get theirs."""
_ALL: Final = (ip_network("0.0.0.0/0"), ip_network("::/0"))
_THIS_MACHINE: Final = tuple(map(ip_network, ("127.0.0.0/8", "0.0.0.0/32", "::1/128", "::/128")))


@dataclass(frozen=True, slots=True)
class Reach:
    """Which addresses may be connected to; `networks` are always allowed."""

    public: bool
    loopback: bool
    networks: Sequence[Network] = ()

    @classmethod
    def of_server(cls, host: str, networks: Sequence[Network]) -> Self:
        """The addresses that a cloud which is reached at `host` may connect to for its organizations.

        On loopback, every address, since its organizations are one person's. Otherwise, public ones and `networks`.
        """
        return cls.everywhere() if is_loopback(host) else cls(True, False, networks)

    @classmethod
    def everywhere(cls) -> Self:
        """Every address, for connections whose targets the organizations of the cloud do not choose."""
        return cls(public=True, loopback=True, networks=_ALL)

    def allows(self, address: Address) -> bool:
        """Whether this address may be connected to."""
        return all(self._allows(meant) for meant in _meant(address))

    @property
    def includes_this_machine(self) -> bool:
        """Whether `networks` have an address that leads to this machine's loopback."""
        return any(network.overlaps(own) for network in self.networks for own in _THIS_MACHINE)

    def _allows(self, meant: Address) -> bool:
        if any(meant in network for network in self.networks):
            return True
        if meant.is_loopback:
            return self.loopback
        is_unicast = meant in _GLOBAL if isinstance(meant, IPv6Address) else not meant.is_multicast
        return self.public and meant.is_global and is_unicast and not any(meant in network for network in _NOT_PUBLIC)


class AddressRefusedError(OSError):
    """A name or a connection led to an address that is not allowed."""


def check(reach: Reach, address: str) -> None:
    """Raise AddressRefusedError if this address may not be connected to."""
    if not reach.allows(ip_address(address.partition("%")[0])):
        raise AddressRefusedError("the address is internal or private")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server at `host`."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _meant(address: IPv4Address | IPv6Address) -> tuple[IPv4Address | IPv6Address, ...]:
    """The addresses at which a packet to this one may arrive."""
    if isinstance(address, IPv4Address):
        return (address,)
    if address.ipv4_mapped is not None:
        return (address.ipv4_mapped,)
    if address in _TRANSLATED:
        return (IPv4Address(int(address) & 0xFFFF_FFFF),)
    inner = [address.sixtofour] if address.sixtofour else list(address.teredo or ())
    return (address, *inner)
