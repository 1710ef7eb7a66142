"""What people see of a kubectl that waits for them to log in."""

import asyncio
import os
from pathlib import Path

import pytest

from relay_cli.failures import Failure
from relay_cli.kubectl import Kubectl
from tests.support.eventually import PATIENCE_SECONDS
from tests.unit.cli.conftest import Scripted

WARNS = "echo 'Warning: resource gpupods/trainer is missing an annotation' >&2"
ASKS = "echo 'To sign in, enter AB12 at https://login.example' >&2"


async def test_what_a_login_asks_is_shown_while_kubectl_waits_and_a_warning_is_not(
    kubectl: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shown(sentence: str) -> None:
        told.append(sentence)
        (tmp_path / "answered").touch()

    told = list[str]()
    kubectl(f"{WARNS}; {ASKS}; until [ -e answered ]; do sleep 0.01; done; echo '{{\"items\": []}}'")
    monkeypatch.setattr("relay_cli.kubectl._PAUSE_SECONDS", 0.1)
    monkeypatch.setattr("relay_cli.kubectl.complain", shown)
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert await Kubectl().list(["gpupods"]) == []
    assert told == ["kubectl waits, and says: To sign in, enter AB12 at https://login.example"]


async def test_what_kubectl_says_on_its_way_is_not_shown(
    kubectl: Scripted, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relay_cli.kubectl._PAUSE_SECONDS", PATIENCE_SECONDS)
    kubectl(f"{ASKS}; echo '{{\"items\": []}}'")
    assert await Kubectl().list(["gpupods"]) == []
    assert capsys.readouterr() == ("", "")


async def test_a_browser_that_a_login_opened_and_that_keeps_stderr_holds_back_no_command(
    kubectl: Scripted, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "closed")
    browser, complains = "cat closed > /dev/null &", "echo 'Error from server: no leader' >&2"
    kubectl(f'{browser} {complains}; case "$*" in *annotate*) exit 1;; esac; echo \'{{"items": []}}\'')
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await Kubectl().list(["gpupods"]) == []
            with pytest.raises(Failure, match=r"^no leader$"):
                await Kubectl().annotate("gpod/trainer", "a", "b")
    finally:
        (tmp_path / "closed").write_text("")
