"""What is offered while a command is typed, by the programs that are installed."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.eventually import PATIENCE_SECONDS

PROGRAMS = Path(sys.executable).parent


def _told(*command: str) -> str:
    path = {"PATH": f"{PROGRAMS}:/usr/bin:/bin"}
    return subprocess.run(
        command, env=path, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True
    ).stdout


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["to"], ["top"]),
        (["top", "-o", "j"], ["json"]),
        (["top", "--all"], ["--all-namespaces"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["fly"], []),
    ],
)
def test_kubectls_completion_is_offered_words_and_told_that_no_file_is_meant(
    words: list[str], offered: list[str]
) -> None:
    assert _told("kubectl_complete-relay", *words).splitlines() == [*offered, ":4"]


@pytest.mark.parametrize("words", [["plan", "-f", ""], ["plan", "--filename", "tr"], ["top", "--kubeconfig", ""]])
def test_kubectl_offers_files_for_the_options_that_take_one(words: list[str]) -> None:
    assert _told("kubectl_complete-relay", *words) == ":0\n"


def test_the_script_for_bash_completes_the_program() -> None:
    typed = (
        'COMP_WORDS=(kubectl-relay do); COMP_CWORD=1; _kubectl_relay_completion kubectl-relay; echo "${COMPREPLY[@]}"'
    )
    assert _told("bash", "-c", f"source <(kubectl-relay completion bash); {typed}") == "doctor\n"


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_there_is_a_script_for_other_shells(shell: str) -> None:
    assert f"_KUBECTL_RELAY_COMPLETE=complete_{shell}" in _told("kubectl-relay", "completion", shell)
