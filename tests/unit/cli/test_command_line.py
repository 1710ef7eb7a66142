"""How a command ends that cannot be run."""

import pytest

from relay_cli.__main__ import main


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["fly"], "No such command 'fly'."),
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
