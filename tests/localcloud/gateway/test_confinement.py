"""A workload's answer counts for that workload alone, whatever it tells a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from relay_localcloud.__main__ import main
from tests.localcloud.support.gateway import Upstream, Workload, behind, connection, endpoint, running
from tests.localcloud.support.server import request
from tests.localcloud.support.workloads import own_node, running_pod

if TYPE_CHECKING:
    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.server import Organization

OF_THE_ORIGIN = (
    "Accept-CH",
    "Alt-Svc",
    "NEL",
    "Report-To",
    "Service-Worker-Allowed",
    "Strict-Transport-Security",
)
BEYOND = ("--ephemeral", "--clock", "frozen", "--host", "0.0.0.0")


async def answered(workload: Workload, path: str, host: str) -> list[tuple[str, str]]:
    """The headers of an answer, names in lowercase."""
    async with connection(workload) as (reader, writer):
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
    lines = (line.split(": ", 1) for line in head.split("\r\n")[1:-2])
    return [(name.lower(), value) for name, value in lines]


def saying(upstream: Upstream, *headers: tuple[str, str]) -> None:
    """Let the workload answer with these headers."""

    async def respond(_: web.Request) -> web.Response:
        response = web.Response(text="hello")
        for name, value in headers:
            response.headers.add(name, value)
        return response

    upstream.respond = respond


@pytest.mark.parametrize("by_path", [False, True])
async def test_headers_that_count_for_others_are_taken_off(
    organization: Organization, upstream: Upstream, *, by_path: bool
) -> None:
    workload = await behind(organization, upstream)
    saying(upstream, *((name, "x") for name in (*OF_THE_ORIGIN, "Clear-Site-Data", "X-Own")))
    way = (f"/_w/{workload.id}/", "127.0.0.1") if by_path else ("/", workload.host)
    names = {name for name, _ in await answered(workload, *way)}
    assert names >= {"x-own", "content-type"}
    assert "clear-site-data" not in names
    assert {name for name in OF_THE_ORIGIN if name.lower() in names} == (set() if by_path else set(OF_THE_ORIGIN))


COOKIES = [
    ("a=b", "a=b", "a=b; Path={prefix}"),
    ("a=b; Path=/", "a=b; Path=/", "a=b; Path={prefix}"),
    ("a=b; Path=/; HttpOnly; Max-Age=5", "a=b; Path=/; HttpOnly; Max-Age=5", "a=b; HttpOnly; Max-Age=5; Path={prefix}"),
    ("a=b;PATH=/x;path = /", "a=b;PATH=/x;path = /", "a=b; Path={prefix}"),
    ("a=b; Path", "a=b; Path", "a=b; Path={prefix}"),
    ("a=b; Path=x", "a=b; Path=x", "a=b; Path={prefix}"),
    ("a=b; Path={prefix}/deep", "a=b; Path={prefix}/deep", "a=b; Path={prefix}/deep"),
    ("a=b; Path={prefix}", "a=b; Path={prefix}", "a=b; Path={prefix}"),
    ("a=b; Path={prefix}0", "a=b; Path={prefix}0", "a=b; Path={prefix}"),
    ("a=b; Path={prefix}/x; Path=/", "a=b; Path={prefix}/x; Path=/", "a=b; Path={prefix}"),
    ("a=b; Domain=localhost; Secure", "a=b; Secure", "a=b; Secure; Path={prefix}"),
    ("a=b; dOMAIN = .localhost", "a=b", "a=b; Path={prefix}"),
    ("Path=/; Domain=x", "Path=/", "Path=/; Path={prefix}"),
]


async def test_cookies_stay_with_the_workload_that_sets_them(organization: Organization, upstream: Upstream) -> None:
    workload = await behind(organization, upstream)
    prefix = f"/_w/{workload.id}"
    saying(upstream, *(("Set-Cookie", sent.format(prefix=prefix)) for sent, _, _ in COOKIES))
    for column, path, host in ((1, "/", workload.host), (2, f"{prefix}/deep/down", "127.0.0.1"), (2, prefix, "x")):
        headers = await answered(workload, path, host)
        kept = [value for name, value in headers if name == "set-cookie"]
        assert kept == [row[column].format(prefix=prefix) for row in COOKIES]


async def test_a_service_worker_rules_its_own_workload_alone(organization: Organization) -> None:
    workload = await running(organization, public=True)
    script = {"Service-Worker": "script"}
    for path, status in (("", 403), ("?x", 403), ("/", 200), ("/sw.js", 200)):
        answer = await request("GET", f"{workload.gateway}/_w/{workload.id}{path}", headers=script)
        assert answer.status == status, path
    assert (await request("GET", f"{workload.gateway}/_w/{workload.id}")).status == 200
    assert (await workload.call("GET", "/", headers=script)).status == 200


async def test_beyond_loopback_a_workload_is_named_by_its_host_alone(start_server: StartServer) -> None:
    organization = await start_server(*BEYOND).organization()
    workload = await running(organization, public=True)
    assert (await workload.call("GET", "/")).status == 200
    for host in ("127.0.0.1", "0.0.0.0", "cloud.example.com"):
        for path in ("", "/", "/x"):
            by_path = await workload.call("GET", f"/_w/{workload.id}{path}", headers={"Host": host})
            assert by_path.refusal == (404, "not_found")
            assert "<label>.localhost" in by_path.body["error"]
    assert (await workload.echoed("GET", f"/_w/{workload.id}/"))["path"] == f"/_w/{workload.id}/"


async def test_endpoints_are_names_of_the_domain_that_is_given(start_server: StartServer) -> None:
    organization = await start_server(*BEYOND, "--gateway-domain", "Apps.Example.com").organization()
    await own_node(organization)
    workload = await endpoint(organization, await running_pod(organization, public=True))
    label, _, domain = workload.host.partition(".")
    assert domain == f"apps.example.com:{workload.gateway.rpartition(':')[2]}"
    assert (await workload.call("GET", "/")).status == 200
    for other in (f"{label}.localhost", "apps.example.com", f"{label}.example.com", f"{label}apps.example.com"):
        answer = await workload.call("GET", "/", headers={"Host": other})
        assert answer.refusal == (404, "not_found"), other


@pytest.mark.parametrize("domain", ["", ".", "a..b", "a.-b", "a_b.c", "a b", "*.a", "a.b:1", "x" * 64])
def test_what_is_no_domain_is_refused_at_the_start(domain: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["serve", "--gateway-domain", domain])
    assert "is not a domain" in capsys.readouterr().err
