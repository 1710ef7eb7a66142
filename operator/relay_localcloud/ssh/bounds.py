"""The limits of a client of the SSH gateway."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits in addition to `connectionsPerAddress`, which bounds an address's open connections over all ports."""

    login_seconds: float = 20.0
    """From the first byte until the client is logged in."""
    failures: int = 6
    """Rejected keys of one connection; the same as in OpenSSH's server."""
    channels: int = 64
    """Sessions and forwarded connections to one pod, VM or replica."""
    idle_seconds: float = 4 * 3600.0
    """Without a byte in either direction; the kubelet ends its streams after the same time."""
    unused_seconds: float = 60.0
    """Without a session or forwarded connection."""
    keepalive_seconds: float = 30.0
    """Between keepalives to a silent client; three without an answer end its connection."""
