"""`GET /healthz`: an answer for whoever starts, restarts and routes to the cloud, whom it knows nothing of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.localcloud.support.server import request

if TYPE_CHECKING:
    from pathlib import Path

    from tests.localcloud.conftest import StartServer


async def test_it_answers_without_a_key_and_without_the_admin_token(start_server: StartServer, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("secret")
    guarded = start_server("--ephemeral", "--admin-token-file", str(file))
    answer = await request("GET", guarded.url + "/healthz")
    assert (answer.status, answer.raw) == (200, b"ok\n")
    assert (await request("HEAD", guarded.url + "/healthz")).status == 200
    assert (await request("POST", guarded.url + "/healthz", {})).status == 404
