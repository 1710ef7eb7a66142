"""The shell blocks of a page: each runs, or a comment before it says why not."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[3]
_FENCED: Final = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_BLOCK: Final = re.compile(
    r"(?:^<!-- not run: (?P<why>.+) -->\n\n)?(?P<lines>(?:^    .*\n(?:\n(?=    ))?)+)", re.MULTILINE
)


@dataclass(frozen=True)
class Block:
    """Lines of shell, and why they do not run: empty if they do."""

    shell: str
    why_not: str


def blocks(page: str) -> list[Block]:
    """The indented ones of a page, from top to bottom; those in fences are outputs and other languages."""
    found = _BLOCK.finditer(_FENCED.sub("", (ROOT / page).read_text()))
    return [Block(re.sub(r"^    ", "", each["lines"], flags=re.MULTILINE), each["why"] or "") for each in found]


def script(page: str) -> str:
    """What runs of it, for one shell."""
    return "\n".join(block.shell for block in blocks(page) if not block.why_not)
