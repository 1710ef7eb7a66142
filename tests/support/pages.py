"""Documentation pages as scripts: each block of shell or Python runs, unless a comment before it says why not."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tests.support.eventually import PATIENCE_SECONDS
from tests.support.toolchain import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

LACKING: Final = tuple(program for program in ("bash", "curl", "jq") if shutil.which(program) is None)
"""Programs that pages need and this machine lacks."""
NOT_RUN: Final = "<!-- not run: "
_BLOCK: Final = re.compile(
    rf"(?:^ *{NOT_RUN}(?P<why>.+) -->\n\n)?"
    r"(?:^```(?P<language>\w*)\n(?P<fenced>[\s\S]*?)^```$|(?P<shell>(?:^    .*\n(?:\n(?=    ))?)+))",
    re.MULTILINE,
)
_NAME: Final = r"`(?P<name>[\w-]+\.(?:csv|py|yaml))`"
_SAVED_ABOVE: Final = re.compile(rf"Save (?:it|the example)\s+as\s+{_NAME}")
_SAVED_BELOW: Final = re.compile(rf"{_NAME}(?:\. .*)?:\n\n\Z")
_LONGEST_SECONDS: Final = 5 * PATIENCE_SECONDS
"""The time limit for a page, which has many commands."""
_SHELLS: Final = ("bash", "console", "sh", "shell")
_STRICT: Final = """set -eEu -o pipefail
trap 'echo "failed: $BASH_COMMAND" >&2' ERR
ended() { :; }
trap 'kill $(jobs -p) 2> /dev/null || true; ended > /dev/null 2>&1 || true' EXIT
curl() { command curl --fail-with-body --show-error "$@" || { echo "refused: curl $*" >&2; return 1; }; }
"""
"""The start of every page's script; a page that leaves something behind defines `ended` to remove it."""


@dataclass(frozen=True)
class Block:
    """Lines of shell and the reason why they do not run; empty if they do."""

    shell: str
    why_not: str


def pages() -> list[str]:
    """Returns the README and the pages of docs/, except decisions; paths are relative to the repository."""
    found = sorted(str(path.relative_to(REPOSITORY)) for path in (REPOSITORY / "docs").rglob("*.md"))
    return ["README.md", *(page for page in found if not page.startswith("docs/decisions/"))]


def of_the_cloud(page: str) -> bool:
    """Whether the page needs only the local cloud and no API server."""
    return page.startswith(("README", "docs/localcloud", "docs/python-client"))


def blocks(page: str) -> list[Block]:
    """Returns, in order, indented blocks and fences of shell, of Python, or that the reader is told to save as a file.

    Other fences are output and examples.
    """
    return list(_blocks((REPOSITORY / page).read_text()))


def script(page: str) -> str:
    """Returns the blocks of a page that run, as one script."""
    return "\n".join(block.shell for block in blocks(page) if not block.why_not)


def ran(lines: str, folder: Path, environment: Mapping[str, str], said: str = "") -> str:
    """Runs lines of shell in a folder, with `said` as input; returns the output. Raises AssertionError on failure."""
    done = subprocess.run(
        ["bash", "-c", _STRICT + lines],
        cwd=folder,
        env=dict(environment),
        input=said,
        capture_output=True,
        text=True,
        check=False,
        timeout=_LONGEST_SECONDS,
    )
    assert done.returncode == 0, f"{done.stdout[-1000:]}\n{done.stderr[-2000:]}"
    return done.stdout


def _blocks(text: str) -> Iterator[Block]:
    found = list(_BLOCK.finditer(text))
    ends = [0, *(each.end() for each in found)]
    starts = [*(each.start() for each in found), len(text)]
    for number, each in enumerate(found):
        before, after = text[ends[number] : each.start()], text[each.end() : starts[number + 1]]
        shell = _indented(each["shell"]) if each["shell"] else _fenced(each, before, after)
        if shell:
            yield Block(shell, each["why"] or "")


def _indented(lines: str) -> str:
    return re.sub(r"^    ", "", lines, flags=re.MULTILINE)


def _fenced(fence: re.Match[str], before: str, after: str) -> str:
    """Returns shell that writes the fence to a file, runs it as Python, or is the fence itself; else empty."""
    saved = _SAVED_BELOW.search(before) or _SAVED_ABOVE.search(after)
    if saved:
        return _here(f"cat > {saved['name']}", fence["fenced"])
    if fence["language"] == "python":
        return _here("python3 -", fence["fenced"])
    return fence["fenced"] if fence["language"] in _SHELLS else ""


def _here(command: str, text: str) -> str:
    return f"{command} <<'END_OF_BLOCK'\n{text}END_OF_BLOCK\n"
