"""Which addresses batches may be led to."""

from ipaddress import ip_address, ip_network

import pytest

from relay_operator.objectstores.addresses import why_not_public, within


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "93.184.215.14", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
)
def test_public_addresses_are_allowed(address: str) -> None:
    assert why_not_public(ip_address(address), ()) is None
    assert not within(ip_address(address), ())


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0",
        "10.1.2.3",
        "100.64.0.1",
        "100.100.100.200",
        "127.0.0.1",
        "127.255.255.254",
        "168.63.129.16",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.192",
        "192.168.1.1",
        "198.18.0.1",
        "224.0.0.1",
        "239.255.255.255",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::1",
        "2001::1",
        "2001:db8::1",
        "2002:7f00:1::",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fe80::1%eth0",
        "fec0::1",
        "ff02::1",
        "4000::1",
    ],
)
def test_all_others_are_refused_however_they_are_wrapped(address: str) -> None:
    assert why_not_public(ip_address(address), ()) is not None
    assert why_not_public(ip_address(address), (ip_network("192.0.2.0/24"),)) is not None


@pytest.mark.parametrize(
    ("network", "inside", "outside"),
    [
        ("10.20.0.0/16", "10.20.255.1", "10.21.0.1"),
        ("10.20.0.0/16", "::ffff:10.20.0.1", "::ffff:10.21.0.1"),
        ("127.0.0.1/32", "127.0.0.1", "127.0.0.2"),
        ("fd00:1::/64", "fd00:1::9", "fd00:2::9"),
    ],
)
def test_a_network_that_the_administrator_names_is_allowed_and_no_other(
    network: str, inside: str, outside: str
) -> None:
    allowed = (ip_network(network),)
    assert why_not_public(ip_address(inside), allowed) is None
    assert within(ip_address(inside), allowed)
    assert why_not_public(ip_address(outside), allowed) is not None
    assert not within(ip_address(outside), allowed)
