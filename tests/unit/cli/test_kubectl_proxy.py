"""What becomes of a command if kubectl's proxy does not begin to serve, and of the proxy if the command ends."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from relay_cli.failures import Failure
from relay_cli.kubectl import Kubectl
from tests.support.eventually import PATIENCE_SECONDS
from tests.unit.cli.conftest import Scripted

COMMAND = """
import asyncio
from relay_cli.kubectl import Kubectl

async def main():
    async with Kubectl().proxy():
        print("open", flush=True)
        await asyncio.sleep(1000)

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("does", "patience", "sentence"),
    [
        ("exec sleep 1000", 0.2, "kubectl proxy was not ready after 0.2 seconds"),
        ("echo 'error: no configuration' >&2; exit 1", PATIENCE_SECONDS, "no configuration"),
    ],
    ids=["hangs", "ends"],
)
async def test_a_proxy_that_does_not_serve_is_a_failure(
    kubectl: Scripted, monkeypatch: pytest.MonkeyPatch, does: str, patience: float, sentence: str
) -> None:
    kubectl(does)
    monkeypatch.setattr("relay_cli.kubectl._READY_SECONDS", patience)
    with pytest.raises(Failure, match=sentence):
        async with Kubectl().proxy():
            pass


async def test_a_browser_that_a_login_opened_hides_no_reason_why_a_proxy_does_not_serve(
    kubectl: Scripted, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "closed")
    kubectl("cat closed > /dev/null & echo 'error: no configuration' >&2; exit 1")
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            with pytest.raises(Failure, match="no configuration"):
                async with Kubectl().proxy():
                    pass
    finally:
        (tmp_path / "closed").write_text("")


async def test_a_command_that_is_terminated_ends_its_proxy(kubectl: Scripted, tmp_path: Path) -> None:
    opens = 'for word; do case "$word" in --unix-socket=*) touch "${word#*=}";; esac; done'
    kubectl(f"{opens}; echo $$ > pid; echo Starting to serve; exec sleep 1000")
    command = await asyncio.create_subprocess_exec(sys.executable, "-c", COMMAND, stdout=asyncio.subprocess.PIPE)
    assert command.stdout is not None
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert await command.stdout.readline() == b"open\n"
        command.terminate()
        await command.wait()
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
