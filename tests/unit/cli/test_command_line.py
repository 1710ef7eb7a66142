"""How a command ends that cannot be run, and what the plugin says of itself."""

from importlib.metadata import version
from pathlib import Path

import pytest

from relay_cli.__main__ import main


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["fly"], "No such command 'fly'."),
        (["top", "-o", "yaml"], "Invalid value for '-o' / '--output': 'yaml' is not one of 'table', 'json'."),
        (["completion"], "Missing argument 'SHELL'. Choose from: bash, zsh, fish"),
        (
            ["deposit", "default", "5000", "--yes", "--idempotency-key", " "],
            "--idempotency-key is empty: give the key of the earlier deposit",
        ),
        (
            ["deposit", "default", "5000", "--yes", "--idempotency-key", "k" * 256],
            "--idempotency-key has more than 255 characters: give the key of the earlier deposit",
        ),
        (
            ["deposit", "default", "5000", "--yes", "--idempotency-key", "k\udcff"],
            "--idempotency-key is not UTF-8: give the key of the earlier deposit",
        ),
        (["top", "--fast"], "No such option: --fast"),
        (["top", "more"], "Got unexpected extra argument(s) (more)"),
        (["cost", "--spend", "--days=1"], "--days and --spend exclude each other: give one of them"),
    ],
)
def test_a_command_line_that_is_wrong_ends_with_2_and_one_sentence(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr() == ("", f"kubectl relay: {sentence}\n")


def test_without_kubectl_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert main(["top"]) == 1
    assert capsys.readouterr() == ("", "kubectl relay: kubectl is not on PATH: install it, or add its folder to PATH\n")


@pytest.mark.parametrize(
    ("mode", "reason"), [(0o755, "Exec format error"), (0o644, "Permission denied")], ids=["another machine's", "data"]
)
def test_a_kubectl_that_cannot_be_run_is_a_sentence(
    mode: int, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "kubectl"
    program.write_bytes(b"\x7fELF of another machine")
    program.chmod(mode)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["top"]) == 1
    assert capsys.readouterr() == ("", f"kubectl relay: the kubectl on PATH cannot be run: {reason}\n")


@pytest.mark.parametrize(
    ("command", "usage"),
    [
        ("plan", "kubectl relay plan [OPTIONS] [KIND/NAME]"),
        ("ssh", "kubectl relay ssh [OPTIONS] {KIND/NAME} [COMMAND]..."),
    ],
)
def test_usage_has_each_bracket_once(command: str, usage: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    assert f"Usage: {usage}\n" in capsys.readouterr().out


def test_it_says_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr() == (f"kubectl relay {version('relay-operator')}\n", "")
