"""With an admin token, control and console are for whoever knows it, from anywhere, and for nobody else."""

from __future__ import annotations

import subprocess
import sys
from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from relay_localcloud.__main__ import _parser
from tests.localcloud.support.server import request
from tests.support.eventually import PATIENCE_SECONDS

if TYPE_CHECKING:
    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.server import Server

TOKEN = "s3cret:token"
PATHS = ("/", "/console/workloads", "/_localcloud/clock", "/_localcloud/export")


@pytest.fixture
def guarded(start_server: StartServer, tmp_path: Path) -> Server:
    """A local cloud with an admin token."""
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    return start_server("--ephemeral", "--admin-token-file", str(file), "--advertise", "cloud.example.com")


def url_of(server: Server) -> str:
    """Where it really listens."""
    return f"http://127.0.0.1:{urlsplit(server.ready['managementUrl']).port}"


def basic(text: str) -> str:
    return f"Basic {b64encode(text.encode()).decode()}"


@pytest.mark.parametrize("path", PATHS)
async def test_it_is_asked_for_even_on_this_machine(guarded: Server, path: str) -> None:
    wrong = ("", "Bearer", "Bearer wrong", f"Bearer {TOKEN}x", TOKEN, "Basic ???", basic("admin"), basic("admin:wrong"))
    for sent in (*wrong, "Basic \xe9"):
        answer = await request("GET", url_of(guarded) + path, headers={"Authorization": sent})
        assert answer.refusal == (401, "unauthorized")
        assert answer.headers["www-authenticate"].startswith("Basic ")


@pytest.mark.parametrize("path", PATHS)
async def test_whoever_knows_it_may_come_by_any_name(guarded: Server, path: str) -> None:
    for sent in (f"Bearer {TOKEN}", f"bearer  {TOKEN} ", basic(f"admin:{TOKEN}"), basic(f":{TOKEN}")):
        headers = {"Authorization": sent, "Host": "cloud.example.com"}
        assert (await request("GET", url_of(guarded) + path, headers=headers)).status == 200


async def test_a_browser_that_knows_it_does_not_lend_it_to_other_sites(guarded: Server) -> None:
    sent = {"Authorization": basic(f"admin:{TOKEN}"), "Content-Type": "text/plain", "Origin": "https://evil.test"}
    answer = await request("POST", url_of(guarded) + "/_localcloud/clock", raw=b'{"advanceSeconds":60}', headers=sent)
    assert answer.refusal == (403, "forbidden")


async def test_the_api_itself_is_as_before(guarded: Server) -> None:
    assert (await request("GET", url_of(guarded) + "/v1/whoami")).refusal == (401, "unauthorized")
    assert (await request("GET", url_of(guarded) + "/openapi.json")).status == 200


async def test_urls_name_the_advertised_host(guarded: Server) -> None:
    shown = [value for name, value in guarded.ready.items() if name.endswith("Url")]
    assert len(shown) == 6
    assert all(url.startswith(("http://cloud.example.com:", "ssh://cloud.example.com:")) for url in shown)


@pytest.mark.parametrize("content", [None, b"", b" \n", b"\xff"])
def test_a_token_that_cannot_be_used_is_told(content: bytes | None, tmp_path: Path) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    command = [str(Path(sys.executable).with_name("relay-localcloud")), "serve", "--admin-token-file", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert done.returncode == 2
    assert "admin token" in done.stderr


@pytest.mark.parametrize("host", ["http://cloud.example.com", "cloud.example.com:8400", "a b", "[::1]", "a/b"])
def test_what_is_no_host_is_not_advertised(host: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        _parser().parse_args(["serve", "--advertise", host])
    assert "is not a host alone" in capsys.readouterr().err


@pytest.mark.parametrize("host", ["", "cloud", "my_cloud", "relay-localcloud.relay.svc", "192.0.2.7", "fd00::7"])
def test_a_host_is_advertised(host: str) -> None:
    assert _parser().parse_args(["serve", "--advertise", host]).advertise == host
