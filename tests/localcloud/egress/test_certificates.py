"""Whoever the cloud calls over HTTPS proves who they are, but for receivers and executors on its user's own machine."""

from __future__ import annotations

from contextlib import contextmanager
from ipaddress import ip_network
from typing import TYPE_CHECKING

import pytest

from relay_localcloud.batches.executors import HttpExecutor as Caller
from relay_localcloud.batches.executors import ToolRoundError
from relay_localcloud.batches.tool_config import Tools
from relay_localcloud.egress.reach import Reach
from relay_localcloud.http.certificate import server_context
from tests.localcloud.support.events import create_webhook, deliveries_of, make_event, settle
from tests.localcloud.support.executors import HttpExecutor
from tests.localcloud.support.inference import CHAT, call, chat
from tests.localcloud.support.modelserver import ModelServer
from tests.localcloud.support.receiver import Receiver
from tests.localcloud.support.server import Server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOOPBACK = ("--ephemeral", "--clock", "frozen")
BEYOND = (*LOOPBACK, "--host", "0.0.0.0", "--allow-network", "127.0.0.0/8")
CALL = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}}


@contextmanager
def cloud(arguments: tuple[str, ...], folder: Path, *, trusts: bool) -> Iterator[Server]:
    """A cloud on a machine that trusts the certificate of the folder, or one that knows nobody."""
    known = folder / ("tls.crt" if trusts else "nobody.crt")
    (folder / "token").write_text("t0ken")
    token = ("--admin-token-file", str(folder / "token"))
    server = Server((*arguments, *token), environment={"SSL_CERT_FILE": str(known)})
    server.start()
    try:
        yield server
    finally:
        server.kill()


@pytest.mark.parametrize(
    ("arguments", "trusts", "called"), [(BEYOND, True, 1), (BEYOND, False, 0), (LOOPBACK, False, 1)]
)
async def test_a_receiver_beyond_loopback_is_called_only_if_its_certificate_is_trusted(
    tmp_path: Path, arguments: tuple[str, ...], trusts: bool, called: int
) -> None:
    async with Receiver(tls=server_context(tmp_path, "127.0.0.1")) as receiver:
        with cloud(arguments, tmp_path, trusts=trusts) as server:
            organization = await server.organization()
            webhook = await create_webhook(organization, receiver)
            await make_event(organization)
            await settle(organization)
            (attempt,) = await deliveries_of(organization, webhook)
    assert len(receiver.received) == called
    assert ("certificate" in str(attempt["error"]).lower()) == (called == 0), attempt


@pytest.mark.parametrize("trusts", [True, False])
@pytest.mark.parametrize("arguments", [BEYOND, LOOPBACK], ids=["beyond loopback", "loopback"])
async def test_a_server_of_a_model_gets_prompts_only_if_its_certificate_is_trusted(
    tmp_path: Path, arguments: tuple[str, ...], trusts: bool
) -> None:
    async with ModelServer(tls=server_context(tmp_path, "127.0.0.1")) as behind:
        backend = {
            "provider": "openai_compatible",
            "ref": "far",
            "endpoint": behind.url,
            "nativeFamilies": ["chat_completions"],
        }
        with cloud(arguments, tmp_path, trusts=trusts) as server:
            organization = await server.organization()
            await organization.ok("POST", "/v1/inference/models/mine/backends", backend)
            answer = await call(organization, "POST", CHAT, chat("hello", "mine"))
    assert (answer.status == 200, len(behind.received)) == (trusts, int(trusts))


@pytest.mark.parametrize("loopback", [True, False])
async def test_an_executor_is_called_only_if_its_certificate_is_trusted_unless_loopback_is_admitted(
    tmp_path: Path, loopback: bool
) -> None:
    reach = Reach(public=True, loopback=loopback, networks=[ip_network("127.0.0.0/8")])
    async with (
        HttpExecutor(tls=server_context(tmp_path, "127.0.0.1")) as executor,
        Caller(Tools(executor.url, "http", reach, None, None, 8, 30), "r") as caller,
    ):
        if loopback:
            assert await caller.run([CALL]) == ["done and dusted"]
        else:
            with pytest.raises(ToolRoundError, match="ClientConnectorCertificateError"):
                await caller.run([CALL])
    assert len(executor.received) == int(loopback)
