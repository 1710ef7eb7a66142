"""Whoever writes an object, a log or an answer of the cloud does not control the terminal of those who read it."""

import asyncio
import io
import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from relay_cli import terminal
from relay_cli.__main__ import main
from relay_cli.models import for_sale, shown
from relay_cli.tables import WIDTH
from relay_cli.terminal import harmless
from tests.unit.cli.conftest import Scripted

ATTACK = "\x1b]0;mine\x07\x1b[2J\r\x9b\u202e"


def _object(kind: str, spec: dict[str, Any], *conditions: str, **status: Any) -> dict[str, Any]:
    metadata = {"name": f"x{ATTACK}", "namespace": f"ml{ATTACK}", "labels": {"gpurelay.dev/cost-center": ATTACK}}
    told = {"status": "True", "reason": "Told", "message": f"so{ATTACK}", "lastTransitionTime": "2026-11-23T08:00:00Z"}
    status["conditions"] = [{"type": each, **told} for each in conditions]
    return {"apiVersion": "gpurelay.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec, "status": status}


POD = _object("GpuPod", {}, id=f"pod_1{ATTACK}", state=f"running{ATTACK}", gpuModelId=ATTACK, gpuCount=1)
MODEL = _object("GpuModel", {}, "Stalled", name=f"H100{ATTACK}")
ACCOUNT = _object(
    "CloudAccount",
    {"apiKeySecretRef": {"name": "key", "key": "api-key"}, "baseUrl": f"http://127.0.0.1:9/{ATTACK}"},
    "Ready",
    "FundsLow",
    spend={
        "since": "2026-11-01T00:00:00Z",
        "observedTime": "2026-11-23T08:00:00Z",
        "byNamespace": [{"name": f"ml{ATTACK}", "cents": 5}],
        "byCostCenter": [{"name": ATTACK, "cents": 5}],
    },
)


@pytest.fixture(autouse=True)
def objects(tmp_path: Path) -> None:
    """What kubectl answers."""
    for name, found in {"account": ACCOUNT, "gpod": POD, "gpumodel": MODEL}.items():
        (tmp_path / name).write_text(json.dumps(found))
        (tmp_path / f"{name}s").write_text(json.dumps({"items": [found]}))
    (tmp_path / "refusal").write_text(f"Error from server (NotFound): {ATTACK} not found")


@pytest.mark.parametrize(
    "command",
    [
        *(["doctor"], ["cost"], ["cost", "--spend"], ["top", "-A"], ["models"]),
        *(["logs", "gpod/x"], ["ssh", "gpod/x"], ["adopt", "gpod/x", "pod_2"], ["deposit", "default", "5000"]),
    ],
    ids=" ".join,
)
def test_no_command_prints_the_control_characters_of_objects(
    command: list[str], kubectl: Scripted, capfd: pytest.CaptureFixture[str]
) -> None:
    kubectl(
        """case "$*" in
        *secret*) echo '{"data": {"api-key": "b3JfMQ=="}}';;
        *clustercloudaccounts*) echo '{"items": []}';;
        *cloudaccounts.*/*) cat account;;
        *cloudaccounts*) cat accounts;;
        *gpumodels*) cat gpumodels;;
        *gpod/x*) cat gpod;;
        *) cat gpods;;
        esac"""
    )
    main(command)
    printed = "".join(capfd.readouterr())
    assert "\N{REPLACEMENT CHARACTER}" in printed
    assert printed == harmless(printed)


@pytest.mark.parametrize("command", [["doctor"], ["top"], ["plan", "gpod/x"], ["plan", "-f", "x"]], ids=" ".join)
def test_no_command_prints_the_control_characters_of_a_refusal(
    command: list[str], kubectl: Scripted, capfd: pytest.CaptureFixture[str]
) -> None:
    kubectl("cat refusal >&2; exit 1")
    assert main(command) == 1
    printed = "".join(capfd.readouterr())
    assert "\N{REPLACEMENT CHARACTER}" in printed
    assert printed == harmless(printed)


def test_a_question_cannot_move_the_readers_cursor(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("yes\n"))
    assert terminal.agreed(f"Charge it to {ATTACK}?")
    asked = capsys.readouterr().err
    assert asked == harmless(asked)


def test_text_keeps_its_lines_tabs_and_letters() -> None:
    assert harmless("é\ta\x1b[2J\r\nb\x9b\n") == "é\ta\ufffd[2J\ufffd\nb\ufffd\n"


@pytest.mark.parametrize("invisible", ["\u200b", "\x1b", "\U0001f469\u200d"], ids=["no width", "control", "joined"])
def test_no_text_makes_a_row_wider_than_the_table(invisible: str) -> None:
    model: dict[str, Any] = {
        "kind": "GpuModel",
        "metadata": {"name": "h100"},
        "status": {"name": f"H100{60 * invisible}l40s"},
    }
    printed = harmless(shown(for_sale([model])))
    assert max(map(cell_len, printed.splitlines())) <= WIDTH


def test_what_the_locale_has_no_character_for_is_a_question_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    stdout = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    monkeypatch.setattr(sys, "stdout", stdout)
    terminal.say("\xe9 \u6f22 \x1b\n")
    assert stdout.buffer.getvalue() == b"\xe9 ? ?\n"


def test_ctrl_c_ends_a_question_without_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted:
        def readline(self) -> str:
            signal.raise_signal(signal.SIGINT)
            return "yes\n"

    async def asks() -> None:
        answers.append(terminal.agreed("Charge it?"))

    answers = list[bool]()
    monkeypatch.setattr(sys, "stdin", Interrupted())
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(asks())
    assert answers == []
