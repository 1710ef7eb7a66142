"""`relay-localcloud serve` as a process: its ready line, its ports, and what a kill leaves behind."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import ssl
from datetime import datetime
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import aiohttp
import pytest

from relay_localcloud.__main__ import main
from relay_localcloud.control.access import ControlAccess
from relay_localcloud.http.exchange import Exchange, attach
from relay_localcloud.http.turns import Turns
from tests.localcloud.support.deployments import BACKENDS
from tests.localcloud.support.events import create_pod, create_webhook, make_event, settle
from tests.localcloud.support.inference import CHAT, call, chat, refusal
from tests.localcloud.support.modelserver import ModelServer
from tests.localcloud.support.server import Server, request
from tests.support.eventually import PATIENCE_SECONDS, eventually
from tests.support.process import free_port

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.types import Message, Receive, Scope, Send

    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.receiver import Receiver

KEYS = [
    "apiKey",
    "consoleUrl",
    "controlUrl",
    "gatewayUrl",
    "inferenceUrl",
    "managementUrl",
    "organizationId",
    "sshUrl",
    "userSessionToken",
]


async def test_the_ready_line_is_true(server: Server) -> None:
    assert sorted(server.ready) == KEYS
    assert server.ready["controlUrl"] == server.ready["managementUrl"] + "/_localcloud"
    for credential in (server.ready["apiKey"], server.ready["userSessionToken"]):
        shown = await request("GET", server.url + "/v1/whoami", key=credential)
        assert shown.body["organizationId"] == server.ready["organizationId"]
    assert (await request("GET", server.ready["consoleUrl"])).status == 200


async def test_the_seeded_organization_has_100000_cents_and_all_scopes(start_server: StartServer) -> None:
    seeded = start_server("--ephemeral").seeded()
    assert (await seeded.ok("GET", "/v1/orgs/{org}/billing/balance"))["balanceCents"] == 100_000
    scopes = (await seeded.ok("GET", "/v1/whoami"))["scopes"]
    assert {"clusters:read", "clusters:write", "vms:read", "vms:write", "inference", "billing:read"} < set(scopes)


async def test_the_other_ports_answer_in_their_own_error_shapes(server: Server) -> None:
    inference = await request("GET", server.ready["inferenceUrl"] + "/v1/nothing")
    assert inference.status == 404
    assert sorted(inference.body["error"]) == ["code", "message", "type"]
    gateway = await request("GET", server.ready["gatewayUrl"] + "/")
    assert gateway.refusal == (404, "not_found")


async def test_sigterm_ends_it_cleanly_with_one_line_on_stdout(start_server: StartServer) -> None:
    server = start_server("--ephemeral")
    async with aiohttp.ClientSession() as idle, idle.get(server.url + "/openapi.json") as answer:
        await answer.read()
        assert await asyncio.to_thread(server.stop) == 0
    assert server.child.stdout is not None
    assert server.child.stdout.read() == b""
    assert "Traceback" not in server.log


async def test_a_port_in_use_is_named(server: Server) -> None:
    port = server.url.rpartition(":")[2]
    second = Server(("--port", port, "--inference-port", "0", "--gateway-port", "0", "--ssh-port", "0"))
    with pytest.raises(AssertionError, match="ended before it was ready"):
        second.start()
    assert second.child.wait(timeout=PATIENCE_SECONDS) == 1
    await eventually(lambda: _log_of(second), lambda log: f"Port {port} on 127.0.0.1" in log, every=0.02)
    assert "Traceback" not in second.log


async def test_an_ssh_port_in_use_is_named_and_the_usual_one_is_given_up() -> None:
    ports = ("--port", "0", "--inference-port", "0", "--gateway-port", "0")
    first, second = Server(ports), Server(ports)
    first.start()
    second.start()
    try:
        taken, other = (urlsplit(each.ready["sshUrl"]).port for each in (first, second))
        assert taken != other
        third = Server((*ports, "--ssh-port", str(taken)))
        with pytest.raises(AssertionError, match="ended before it was ready"):
            third.start()
        assert f"Port {taken} on 127.0.0.1" in third.log
    finally:
        first.kill()
        second.kill()


async def test_behind_an_ingress_it_says_where_it_is_reached_and_its_console_takes_forms_from_there(
    start_server: StartServer, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("t0ken")
    own = f"http://127.0.0.1:{free_port()}"
    ports = ("--port", own.rpartition(":")[2], "--inference-port", "0", "--gateway-port", "0", "--ssh-port", "0")
    told = ("--public-url", "https://Cloud.example.com:443/", "--admin-token-file", str(tmp_path / "token"))
    server = start_server("--ephemeral", *ports, *told)
    said = {name: server.ready[name] for name in ("managementUrl", "consoleUrl", "controlUrl")}
    public = "https://cloud.example.com"
    assert said == {"managementUrl": public, "consoleUrl": f"{public}/", "controlUrl": f"{public}/_localcloud"}
    assert urlsplit(server.ready["inferenceUrl"]).hostname == "127.0.0.1"
    sent = {"Sec-Fetch-Site": "same-origin", "Content-Type": "application/x-www-form-urlencoded"}
    for origin, status in ((public, 303), (own, 303), ("https://other.example.com", 403), ("null", 403)):
        headers = {**sent, "Origin": origin}
        answer = await request("POST", f"{own}/console/clock/advance", raw=b"seconds=1", headers=headers, key="t0ken")
        assert answer.status == status, (origin, answer.raw)
    key = server.ready["apiKey"]
    vm = await request("POST", f"{own}/v1/pods", {"image": "nginx", "gpuModelId": "h100"}, key=key)
    page = await request("GET", f"{own}/console/workload?id={vm.body['id']}", key="t0ken")
    assert f"curl {public}/v1/vms/{vm.body['id']}" in page.raw.decode()


@pytest.mark.parametrize(
    ("url", "control", "deposit"),
    [("https://cloud.example.com", (403, 403), "PAYMENTS_UNCONFIGURED"), ("http://localhost:9000", (200, 200), None)],
)
async def test_nobody_who_calls_through_a_proxy_on_this_machine_has_its_privileges(
    start_server: StartServer, url: str, control: tuple[int, int], deposit: str | None
) -> None:
    own = f"http://127.0.0.1:{free_port()}"
    ports = ("--port", own.rpartition(":")[2], "--inference-port", "0", "--gateway-port", "0", "--ssh-port", "0")
    ready = start_server("--ephemeral", *ports, "--public-url", url).ready
    answers = [await request("GET", own + path) for path in ("/_localcloud/export", "/console/workloads")]
    assert tuple(answer.status for answer in answers) == control, [answer.raw for answer in answers]
    path = f"{own}/v1/orgs/{ready['organizationId']}/billing/deposit"
    paid = await request("POST", path, {"amountCents": 1000}, key=ready["userSessionToken"])
    assert paid.body.get("code") == deposit, paid.raw


@pytest.mark.parametrize(
    "url",
    ["cloud.example.com", "ftp://cloud", "https://", "https://a/b", "https://a?b", "https://u:p@a", "https://a b"],
)
def test_what_is_no_public_url_is_refused_with_an_example(url: str) -> None:
    refused = Server(("--public-url", url))
    with pytest.raises(AssertionError, match="ended before it was ready"):
        refused.start()
    assert refused.child.wait(timeout=PATIENCE_SECONDS) == 2
    assert "is not a scheme and a host, such as https://cloud.example.com" in refused.log


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        *(("--port", port, "is not a port from 0 to 65535") for port in ("abc", "-1", "65536", "8400.0", "")),
        *(
            ("--allow-network", network, "is not a network, such as 10.96.0.0/12")
            for network in ("10.0.0.0/33", "300.0.0.0/8", "cluster", "")
        ),
    ],
)
def test_what_is_no_port_or_network_is_refused_in_a_sentence(
    option: str, value: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["serve", f"{option}={value}"])
    assert capsys.readouterr().err.endswith(f"argument {option}: {value!r} {says}\n")


async def test_a_killed_cloud_goes_on_where_it_was(
    start_server: StartServer, tmp_path: Path, receiver: Receiver
) -> None:
    arguments = ("--state", str(tmp_path / "state"), "--clock", "frozen")
    first = start_server(*arguments)
    organization = await first.organization()
    webhook = await create_webhook(organization, receiver)
    receiver.answers = [500]
    await make_event(organization)
    await settle(organization)
    pod = await create_pod(organization)
    await first.ok("PATCH", "/settings", {"capacityStatus": 429})
    clock = await first.ok("GET", "/clock")
    state = await first.ok("GET", "/export")
    first.kill()

    second = start_server(*arguments)
    assert await second.ok("GET", "/clock") == clock
    assert second.ready["apiKey"] == first.ready["apiKey"]
    assert second.ready["organizationId"] == first.ready["organizationId"]
    kept = await second.ok("GET", "/export")
    for table in state["tables"].keys() - {"sessions", "meta", "api_keys"}:
        assert kept["tables"][table] == state["tables"][table], table
    assert (await second.ok("PATCH", "/settings", {}))["capacityStatus"] == 429
    await second.advance(600)
    terminated = [received for received in receiver.received if received.event["type"] == "vm.terminated"]
    assert [received.is_signed_with(webhook["secret"]) for received in terminated] == [True, True]
    record = await request("GET", f"{second.url}/v1/vms/{pod}", key=organization.api_key)
    assert record.body["status"] == "running"


async def test_nothing_that_was_acknowledged_is_lost_by_a_kill(start_server: StartServer, tmp_path: Path) -> None:
    arguments = ("--state", str(tmp_path / "state"))
    first = start_server(*arguments)
    seeded = first.seeded()
    acknowledged: list[str] = []

    async def keep_creating() -> None:
        while True:
            created = await seeded.call("POST", "/v1/orgs/{org}/api-keys/create", {"name": "k"})
            acknowledged.append(created.body["key"])

    creating = [asyncio.create_task(keep_creating()) for _ in range(4)]

    async def count() -> int:
        return len(acknowledged)

    await eventually(count, lambda made: made >= 40, every=0.01)
    first.kill()
    await asyncio.gather(*creating, return_exceptions=True)
    second = start_server(*arguments)
    for key in acknowledged:
        assert (await request("GET", second.url + "/v1/whoami", key=key)).status == 200


async def test_a_call_to_a_receiver_that_was_cut_by_a_kill_is_made_again(
    start_server: StartServer, tmp_path: Path, receiver: Receiver
) -> None:
    arguments = ("--state", str(tmp_path / "state"), "--clock", "frozen")
    first = start_server(*arguments)
    await first.ok("PATCH", "/settings", {"webhookTimeoutSeconds": 300})
    organization = await first.organization()
    await create_webhook(organization, receiver)
    receiver.hang = asyncio.Event()
    await make_event(organization)

    async def received() -> int:
        return len(receiver.received)

    await eventually(received, lambda count: count == 1, every=0.01)
    first.kill()
    receiver.hang = None
    start_server(*arguments)
    await eventually(received, lambda count: count == 2, every=0.01)
    assert len({(call.delivery, call.raw) for call in receiver.received}) == 1


async def test_a_move_of_the_clock_that_a_kill_cut_is_completed_by_the_next_start(
    start_server: StartServer, tmp_path: Path, receiver: Receiver
) -> None:
    arguments = ("--state", str(tmp_path / "state"), "--clock", "frozen")
    first = start_server(*arguments)
    await first.ok("PATCH", "/settings", {"webhookTimeoutSeconds": 300})
    before = datetime.fromisoformat((await first.ok("GET", "/clock"))["now"])
    organization = await first.organization()
    await create_webhook(organization, receiver)
    receiver.hang = asyncio.Event()
    pod = await create_pod(organization)
    moving = asyncio.create_task(first.advance(600))

    async def received() -> int:
        return len(receiver.received)

    await eventually(received, lambda count: count == 1, every=0.01)
    first.kill()
    await asyncio.gather(moving, return_exceptions=True)
    receiver.hang = None
    second = start_server(*arguments)
    now = datetime.fromisoformat((await second.ok("GET", "/clock"))["now"])
    assert (now - before).total_seconds() == 600
    record = await request("GET", f"{second.url}/v1/vms/{pod}", key=organization.api_key)
    assert record.body["status"] == "running"
    await eventually(received, lambda count: count == 2, every=0.01)


async def test_a_real_clock_is_kept_with_its_offset(start_server: StartServer, tmp_path: Path) -> None:
    arguments = ("--state", str(tmp_path / "state"))
    first = start_server(*arguments)
    moved = (await first.ok("POST", "/clock", {"advanceSeconds": 400 * 86_400}))["now"]
    first.kill()
    second = start_server(*arguments)
    shown = await second.ok("GET", "/clock")
    assert shown["mode"] == "real"
    assert shown["now"] > moved


async def test_a_revoked_seeded_key_is_replaced_at_the_next_start(start_server: StartServer, tmp_path: Path) -> None:
    first = start_server("--state", str(tmp_path / "state"))
    seeded = first.seeded()
    (key,) = await seeded.ok("GET", "/v1/orgs/{org}/api-keys")
    await seeded.ok("DELETE", f"/v1/orgs/{{org}}/api-keys/{key['id']}")
    first.kill()
    second = start_server("--state", str(tmp_path / "state"))
    assert second.ready["apiKey"] != first.ready["apiKey"]
    assert (await second.seeded().call("GET", "/v1/whoami")).status == 200


async def test_two_processes_cannot_share_a_state(start_server: StartServer, tmp_path: Path) -> None:
    first = start_server("--state", str(tmp_path / "state"))
    second = Server(("--state", str(tmp_path / "state")))
    with pytest.raises(AssertionError, match="ended before it was ready"):
        second.start()
    assert second.child.wait(timeout=PATIENCE_SECONDS) == 1
    await eventually(lambda: _log_of(second), lambda log: f"in use by another process (pid {first.child.pid})" in log)
    assert "Traceback" not in second.log
    assert (await first.seeded().call("GET", "/v1/whoami")).status == 200


async def test_a_process_waits_for_the_one_before_it_to_leave_its_state(
    start_server: StartServer, tmp_path: Path
) -> None:
    first = start_server("--state", str(tmp_path / "state"))
    second = Server(("--state", str(tmp_path / "state")))
    starting = asyncio.create_task(asyncio.to_thread(second.start))
    try:
        said = f"in use by another process (pid {first.child.pid})"
        await eventually(lambda: _log_of(second), lambda log: said in log)
        assert not starting.done()
        first.stop()
        await starting
        assert second.ready["organizationId"] == first.ready["organizationId"]
        assert (await second.seeded().call("GET", "/v1/whoami")).status == 200
    finally:
        second.kill()


async def test_a_state_of_another_version_is_refused(start_server: StartServer, tmp_path: Path) -> None:
    folder = tmp_path / "state"
    start_server("--state", str(folder)).stop()
    with sqlite3.connect(folder / "state.db") as newer:
        newer.execute("PRAGMA user_version=999")
    newer.close()
    second = Server(("--state", str(folder)))
    with pytest.raises(AssertionError, match="ended before it was ready"):
        second.start()
    assert second.child.wait(timeout=PATIENCE_SECONDS) == 1
    await eventually(lambda: _log_of(second), lambda log: "has version 999" in log)
    assert "Traceback" not in second.log


async def test_a_fresh_state_may_start_from_an_exported_one(start_server: StartServer, tmp_path: Path) -> None:
    first = start_server("--ephemeral", "--clock", "frozen")
    organization = await first.organization()
    exported = tmp_path / "exported.json"
    exported.write_bytes((await first.control("GET", "/export")).raw)
    second = start_server("--ephemeral", "--seed", str(exported))
    assert (await request("GET", second.url + "/v1/whoami", key=organization.api_key)).status == 200
    assert second.ready["organizationId"] == first.ready["organizationId"]
    assert (await second.ok("GET", "/clock"))["mode"] == "frozen"


async def test_tls_serves_https_with_a_certificate_that_can_be_trusted(
    start_server: StartServer, tmp_path: Path
) -> None:
    folder = tmp_path / "state"
    server = start_server("--state", str(folder), "--tls")
    assert all(server.ready[name].startswith("https://") for name in KEYS if name.endswith("Url") and name != "sshUrl")
    trusting = ssl.create_default_context(cafile=str(folder / "tls.crt"))
    headers = {"Authorization": f"Bearer {server.ready['apiKey']}"}
    async with aiohttp.ClientSession(headers=headers) as session:
        async with session.get(server.url + "/v1/whoami", ssl=trusting) as reply:
            assert reply.status == 200
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await session.get(server.url + "/v1/whoami")
        made = await session.post(
            server.ready["controlUrl"] + "/faults",
            json={"operation": "POST /v1/pods", "effect": {"drop": "before"}},
            ssl=trusting,
        )
        assert made.status == 200
        with pytest.raises(aiohttp.ClientConnectionError):
            await session.post(server.url + "/v1/pods", json={"image": "nginx"}, ssl=trusting)


async def test_the_certificate_is_for_every_workload_of_the_domain(start_server: StartServer, tmp_path: Path) -> None:
    folder = tmp_path / "state"
    server = start_server("--state", str(folder), "--tls", "--gateway-domain", "apps.example.com")
    trusting = ssl.create_default_context(cafile=str(folder / "tls.crt"))
    gateway = urlsplit(server.ready["gatewayUrl"])
    address, name = (gateway.hostname, gateway.port), "pod-1.apps.example.com"
    _, writer = await asyncio.open_connection(*address, ssl=trusting, server_hostname=name)
    writer.close()


async def _log_of(server: Server) -> str:
    return server.log


@pytest.mark.parametrize(
    ("client", "path", "anywhere", "passes"),
    [
        ("127.0.0.1", "/_localcloud/clock", False, True),
        ("::1", "/_localcloud/clock", False, True),
        ("::ffff:127.0.0.1", "/_localcloud/clock", False, True),
        ("10.0.0.7", "/_localcloud/clock", False, False),
        ("10.0.0.7", "/_localcloud", False, False),
        ("10.0.0.7", "/", False, False),
        ("2001:db8::1", "/_localcloud/export", False, False),
        ("10.0.0.7", "/console/clock/advance", False, False),
        ("10.0.0.7", "/v1/whoami", False, True),
        ("10.0.0.7", "/openapi.json", False, True),
        ("10.0.0.7", "/_localcloud/clock", True, True),
    ],
)
async def test_other_machines_reach_the_control_interface_only_where_told(
    client: str, path: str, anywhere: bool, passes: bool
) -> None:
    reached: list[str] = []
    sent: list[Message] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        del receive, send
        reached.append(scope["path"])

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": path, "headers": [], "client": (client, 40000)}
    exchange = Exchange(None, {})
    attach(scope, exchange)
    await ControlAccess(app, Turns(), anywhere=anywhere)(scope, receive, send)
    assert exchange.is_control == (passes and path.startswith("/_localcloud"))
    assert bool(reached) is passes
    if not passes:
        assert sent[0]["status"] == 403
        assert json.loads(sent[1]["body"])["code"] == "forbidden"


async def test_what_is_under_way_when_the_cloud_ends_is_503_in_the_shape_of_its_api(start_server: StartServer) -> None:
    server = start_server("--ephemeral", "--clock", "frozen")
    organization = server.seeded()
    async with ModelServer(hang=asyncio.Event()) as model:
        families = ["chat_completions"]
        backend = {"provider": "openai_compatible", "ref": "far", "endpoint": model.url, "nativeFamilies": families}
        await organization.ok("POST", BACKENDS.format(model="far"), backend)
        asking = asyncio.create_task(call(organization, "POST", CHAT, chat("hello", "far")))
        await model.arrived.wait()
        assert await asyncio.to_thread(server.stop) == 0
        assert refusal(await asking) == (503, "api_error", "upstream_unavailable")
    assert "Traceback" not in server.log
