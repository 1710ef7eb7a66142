"""Who may use the console and the control interface: this machine, and no other site's page in its browser."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

import pytest

from tests.localcloud.support.server import Answer, request

if TYPE_CHECKING:
    from tests.localcloud.support.server import Server

FOREIGN_NAMES = ("evil.test", "evil.test:80", "localhost.evil.test", "127.0.0.1.evil.test", "[", "", "a@localhost.x")
ADVANCE = b"seconds=3600&back=%2F"


async def advance(server: Server, **headers: str) -> Answer:
    """Press "+1 h" with these headers."""
    sent = {"Content-Type": "application/x-www-form-urlencoded"}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    return await request("POST", server.url + "/console/clock/advance", raw=ADVANCE, headers=sent)


async def now(server: Server) -> str:
    shown: str = (await server.ok("GET", "/clock"))["now"]
    return shown


async def test_the_consoles_own_forms_are_taken(server: Server) -> None:
    for headers in ({"Origin": server.url}, {"Sec_Fetch_Site": "same-origin"}, {"Sec_Fetch_Site": "none"}):
        before = await now(server)
        answer = await advance(server, **headers)
        assert (answer.status, answer.headers["location"]) == (303, "/?done=advanced")
        assert await now(server) > before


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "https://evil.test"},
        {"Origin": "null"},
        {"Origin": "http://localhost:1"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Sec_Fetch_Site": "cross-site", "Origin": "http://127.0.0.1"},
    ],
)
async def test_forms_of_other_sites_are_refused(server: Server, headers: dict[str, str]) -> None:
    before = await now(server)
    assert (await advance(server, **headers)).refusal == (403, "forbidden")
    assert await now(server) == before


async def test_control_calls_of_other_sites_are_refused(server: Server) -> None:
    before = await now(server)
    for headers in ({"Origin": "https://evil.test"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "null"}):
        # A page may send this without asking first, since it looks like a form's.
        sent = {"Content-Type": "text/plain", **headers}
        answer = await server.control("POST", "/clock", raw=b'{"advanceSeconds":60}', headers=sent)
        assert answer.refusal == (403, "forbidden")
    assert await now(server) == before


@pytest.mark.parametrize("path", ["/", "/console/workloads", "/_localcloud/clock", "/_localcloud/export"])
async def test_a_name_that_somebody_made_point_here_is_refused(server: Server, path: str) -> None:
    port = urlsplit(server.url).port
    for name in FOREIGN_NAMES:
        assert (await request("GET", server.url + path, headers={"Host": name})).refusal == (403, "forbidden")
    for name in ("localhost", f"localhost:{port}", f"LOCALHOST:{port}", f"127.0.0.1:{port}", f"[::1]:{port}"):
        assert (await request("GET", server.url + path, headers={"Host": name})).status == 200


@pytest.mark.parametrize(
    "back",
    ["//evil.test/", "https://evil.test/", "/console/../../x", "/v1/whoami", "/\\evil.test", "", "/%0d%0aX:y\r\nX: y"],
)
async def test_a_form_leads_back_to_the_console_and_nowhere_else(server: Server, back: str) -> None:
    form = urlencode({"seconds": "1", "back": back}).encode()
    sent = {"Origin": server.url, "Content-Type": "application/x-www-form-urlencoded"}
    answer = await request("POST", server.url + "/console/clock/advance", raw=form, headers=sent)
    assert (answer.status, answer.headers["location"]) == (303, "/?done=advanced")


@pytest.mark.parametrize(
    ("path", "form"),
    [
        ("/console/clock/advance", b""),
        ("/console/clock/advance", b"seconds=x"),
        ("/console/clock/advance", b"seconds=nan"),
        ("/console/clock/advance", b"seconds=-5"),
        ("/console/clock/advance", b"seconds=1e400"),
        ("/console/clock/advance", b"seconds=60&amount=inf"),
        ("/console/clock/set", b"set="),
        ("/console/clock/set", b"set=1970-01-01T00:00:00Z"),
        ("/console/clock/mode", b"mode=odd"),
        ("/console/clock/mode", b"mode=scaled&rate=-1"),
        ("/console/clock/mode", b"\xff\xfe=%ff&&&=;"),
        ("/console/nodes/node_none/reporting", b"reporting=no"),
        ("/console/deliveries/none/replay", b""),
        ("/console/faults", b"operation=x&effect=500"),
        ("/console/faults", b"operation=POST+/v1/pods&effect=odd"),
        ("/console/faults", b"operation=POST+/v1/pods&effect=500&count=0"),
        ("/console/faults", b"operation=POST+/v1/pods&effect=500&count=many"),
        ("/console/faults", b"operation=webhook&effect=500"),
        ("/console/faults/none/remove", b""),
        ("/console/faults", b"&".join(b"a=b" for _ in range(1000))),
        ("/console/faults", b"a" * 100_000),
    ],
)
async def test_a_form_that_cannot_be_granted_is_told_why(server: Server, path: str, form: bytes) -> None:
    sent = {"Origin": server.url, "Content-Type": "application/x-www-form-urlencoded"}
    answer = await request("POST", server.url + path, raw=form, headers=sent)
    assert answer.status in {400, 404, 413}
    assert answer.raw
    assert (await server.ok("GET", "/faults")) == {"items": []}
