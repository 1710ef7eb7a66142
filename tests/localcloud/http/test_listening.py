"""The address that the ports listen on."""

import socket

import pytest

from relay_localcloud.http.servers import listen


def has_ipv6() -> bool:
    """Whether this machine's loopback has an address of IPv6."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


IPV6 = pytest.param("::1", marks=pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6"))


@pytest.mark.parametrize("host", ["127.0.0.1", IPV6])
def test_every_address_is_that_of_both_families(host: str) -> None:
    with listen("::", 0) as listener, socket.create_connection((host, listener.getsockname()[1])) as connection:
        assert connection.getpeername()[0] == host


def test_a_system_without_ipv6_listens_on_ipv4_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.has_dualstack_ipv6", lambda: False)
    with listen("::", 0) as listener:
        assert listener.getsockname()[0] == "0.0.0.0"


def test_one_address_is_that_alone() -> None:
    other = "::1" if has_ipv6() else "127.0.0.2"
    with listen("127.0.0.1", 0) as listener, pytest.raises(ConnectionRefusedError):
        socket.create_connection((other, listener.getsockname()[1]))
