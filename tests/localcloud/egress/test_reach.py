"""Beyond loopback, a cloud calls nothing for its organizations that only it can reach."""

from __future__ import annotations

import json
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING

import pytest

from relay_localcloud.egress.reach import Reach
from tests.localcloud.support.events import create_webhook, deliveries_of, make_event, settle
from tests.localcloud.support.inference import CHAT, call, chat
from tests.localcloud.support.modelserver import ModelServer
from tests.localcloud.support.receiver import Receiver
from tests.localcloud.support.server import Server

if TYPE_CHECKING:
    from pathlib import Path

    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.server import Organization

BEYOND = ("--ephemeral", "--clock", "frozen", "--host", "0.0.0.0")
ALLOWED = (ip_network("10.1.0.0/16"), ip_network("fd00:1::/64"))
INSIDE = [
    "127.0.0.1",
    "127.9.9.9",
    "0.0.0.0",
    "10.0.0.1",
    "10.2.0.1",
    "172.16.0.1",
    "192.168.0.1",
    "169.254.169.254",
    "100.64.0.1",
    "168.63.129.16",
    "192.0.0.9",
    "192.0.0.192",
    "224.0.0.1",
    "::1",
    "::",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::a83f:8110",
    "64:ff9b:1::1",
    "2002:7f00:1::",
    "fe80::1",
    "fec0::1",
    "::7f00:1",
    "::ffff:0:7f00:1",
    "4000::1",
    "2001:db8::1",
    "fd00:2::1",
    "ff02::1",
]
OUTSIDE = ["93.184.216.34", "2606:2800:220:1::1", "64:ff9b::5db8:d822"]
LISTED = ["10.1.0.1", "10.1.255.255", "::ffff:10.1.0.1", "fd00:1::1"]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.0.1", "cloud.example.com"])
@pytest.mark.parametrize("address", [*INSIDE, *OUTSIDE, *LISTED])
def test_beyond_loopback_public_addresses_are_called_and_those_that_are_listed(host: str, address: str) -> None:
    assert Reach.of_server(host, ALLOWED).allows(ip_address(address)) == (address not in INSIDE)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
@pytest.mark.parametrize("address", [*INSIDE, *OUTSIDE, *LISTED])
def test_on_loopback_everything_is_called(host: str, address: str) -> None:
    assert Reach.of_server(host, ()).allows(ip_address(address))


async def attempts_at(organization: Organization, receiver: Receiver, url: str) -> list[tuple[object, object]]:
    """What is told of the first attempt to call the receiver there."""
    port = receiver.url.rpartition(":")[2]
    webhook = await create_webhook(organization, Receiver(url=url.format(port=port)))
    await make_event(organization)
    await settle(organization)
    return [(one.get("statusCode"), one.get("error")) for one in await deliveries_of(organization, webhook)]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0"])
async def test_a_webhook_to_this_machine_is_not_called_beyond_loopback(
    start_server: StartServer, receiver: Receiver, host: str
) -> None:
    organization = await start_server(*BEYOND).organization()
    ((_, error),) = await attempts_at(organization, receiver, f"http://{host}:{{port}}")
    assert "internal or private" in str(error)
    assert receiver.received == []


async def test_a_webhook_does_not_reveal_which_names_the_network_of_the_cloud_has(
    start_server: StartServer, receiver: Receiver
) -> None:
    server = start_server(*BEYOND)
    await server.ok("PATCH", "/settings", {"webhookTimeoutSeconds": 300})  # a resolver without a server takes its time
    organization = await server.organization()
    names = ("localhost", "nobody.invalid", "nobody..invalid")
    said = {(await attempts_at(organization, receiver, f"http://{name}:{{port}}"))[0] for name in names}
    assert len(said) == 1, said


@pytest.fixture
def listing(tmp_path: Path) -> tuple[str, ...]:
    """Arguments that list loopback, which needs an admin token."""
    (tmp_path / "token").write_text("t0ken")
    return ("--allow-network", "127.0.0.0/8", "--admin-token-file", str(tmp_path / "token"))


@pytest.mark.parametrize(
    "network", ["127.0.0.0/8", "127.0.0.2/32", "0.0.0.0/32", "0.0.0.0/0", "::1/128", "::/128", "::/0"]
)
def test_a_cloud_beyond_loopback_calls_loopback_only_if_control_needs_a_token(network: str) -> None:
    server = Server((*BEYOND, "--allow-network", network))
    with pytest.raises(AssertionError, match="--admin-token-file"):
        server.start()
    assert "Traceback" not in server.log


@pytest.mark.parametrize("network", ["10.0.0.0/8", "fd00::/8"])
def test_other_networks_need_no_token(start_server: StartServer, network: str) -> None:
    assert start_server(*BEYOND, "--allow-network", network).ready


async def test_a_webhook_to_a_network_that_is_listed_is_called(
    start_server: StartServer, receiver: Receiver, listing: tuple[str, ...]
) -> None:
    organization = await start_server(*BEYOND, *listing).organization()
    await attempts_at(organization, receiver, "http://127.0.0.1:{port}")
    assert len(receiver.received) == 1


async def test_a_webhook_does_not_reveal_an_address_in_a_network_that_is_listed(
    start_server: StartServer, receiver: Receiver, listing: tuple[str, ...]
) -> None:
    organization = await start_server(*BEYOND, *listing).organization()
    assert await attempts_at(organization, receiver, "http://127.0.0.1:1") == [(None, "ClientConnectorError")]


@pytest.mark.parametrize("answers", [False, True])
async def test_a_server_of_a_model_on_this_machine_is_called_only_if_its_network_is_listed(
    start_server: StartServer, listing: tuple[str, ...], answers: bool
) -> None:
    organization = await start_server(*BEYOND, *(listing if answers else ())).organization()
    async with ModelServer() as behind:
        backend = {
            "provider": "openai_compatible",
            "ref": "far",
            "endpoint": behind.url,
            "nativeFamilies": ["chat_completions"],
        }
        await organization.ok("POST", "/v1/inference/models/mine/backends", backend)
        answer = await call(organization, "POST", CHAT, chat("hello", "mine"))
        assert (answer.status == 200, len(behind.received) == 1) == (answers, answers)
        assert behind.url.rpartition(":")[2] not in json.dumps(answer.body)


@pytest.mark.parametrize("host", ["a..b", f"{'a' * 64}.test", "nobody.invalid"])
async def test_a_server_of_a_model_whose_name_does_not_exist_cannot_be_used(
    organization: Organization, host: str
) -> None:
    backend = {
        "provider": "openai_compatible",
        "ref": "far",
        "endpoint": f"http://{host}/v1",
        "nativeFamilies": ["chat_completions"],
    }
    await organization.ok("POST", "/v1/inference/models/mine/backends", backend)
    answer = await call(organization, "POST", CHAT, chat("hello", "mine"))
    assert (answer.status, answer.body["error"]["code"]) == (502, "upstream_error")
