"""What whoever connects to the SSH gateway may take of it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bounds:
    """Beside the open connections of an address, which count over all ports (`connectionsPerAddress`)."""

    login_seconds: float = 20.0
    """From the first byte to being logged in."""
    failures: int = 6
    """Keys that let nobody in, of one connection; OpenSSH's server has the same."""
    channels: int = 64
    """Sessions and forwarded connections to one pod, VM or replica."""
    idle_seconds: float = 4 * 3600.0
    """Without a byte either way; the kubelet cuts what it streams after as long."""
    unused_seconds: float = 60.0
    """With nothing open."""
    keepalive_seconds: float = 30.0
    """Between questions to a silent client; three without an answer end its connection."""
