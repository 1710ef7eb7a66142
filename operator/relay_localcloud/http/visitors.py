"""Counts open connections by client, over all ports: beyond loopback, an address may have a limited number."""

from collections import Counter
from ipaddress import IPv6Address, IPv6Network, ip_address
from typing import Any, Final, Protocol

from relay_localcloud.kernel.store import Store

_PREFIX_OF_ONE: Final = 64
"""Prefix length of an IPv6 network that counts as one client: it can use any number of addresses below it."""


class Connected(Protocol):
    """A connection that knows its peer, as `asyncio.BaseTransport` does."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 - as asyncio has it
        """`peername`: a tuple that begins with the address."""
        ...


class Visitors:
    """Counts the open connections of each address."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._open: Counter[str] = Counter()

    def come(self, connection: Connected) -> str | None:
        """The client whose connection this is, counted until `go`; None if it has too many."""
        peer = connection.get_extra_info("peername")
        return self.come_from(str(peer[0]) if peer else "")  # a client that has disconnected already has no address

    def come_from(self, host: str) -> str | None:
        """As `come`, for a connection from this address."""
        visitor = visitor_at(host) if host else ""
        most = self._store.settings.connections_per_address
        if most and self._store.beyond_loopback and self._open[visitor] >= most:
            return None
        self._open[visitor] += 1
        return visitor

    @property
    def stalled_seconds(self) -> float:
        """Seconds for which a body may stand still, in either direction."""
        return self._store.settings.stalled_body_seconds

    def go(self, visitor: str) -> None:
        """Stop counting an ended connection."""
        self._open[visitor] -= 1
        if not self._open[visitor]:
            del self._open[visitor]


def visitor_at(host: str) -> str:
    """What counts as one client: an IPv4 address, however it is written, or an IPv6 network."""
    address = ip_address(as_written(host).partition("%")[0])
    if not isinstance(address, IPv6Address):
        return str(address)
    return str(IPv6Network((address, _PREFIX_OF_ONE), strict=False))


def as_written(host: str) -> str:
    """An address as people write it: a listener for both families sees IPv4's as IPv6's, such as `::ffff:192.0.2.1`."""
    address = ip_address(host)
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return host if mapped is None else str(mapped)
