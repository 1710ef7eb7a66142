"""The page of the local cloud does what it says: its shell blocks run from top to bottom, in one shell."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.localcloud.support.server import COMMAND

_PAGE = Path(__file__).resolve().parents[3] / "docs" / "localcloud.md"
_SERVED = f"{COMMAND} serve --port 0 --inference-port 0 --gateway-port 0"
_ENDLESS = ("relay-localcloud serve\n", "relay-operator run\n")
"""What does not return: the page begins with the one, and the other needs a cluster."""
_STRICT = """set -eu -o pipefail
trap 'kill $(jobs -p)' EXIT
curl() { command curl --fail-with-body --show-error "$@" || { echo "refused: curl $*" >&2; return 1; }; }
"""
_NEEDED = [program for program in ("bash", "curl", "jq") if shutil.which(program) is None]


def _blocks(page: str) -> Iterator[str]:
    """The indented ones; those in fences are outputs and other languages."""
    unfenced = re.sub(r"^```.*?^```$", "", page, flags=re.DOTALL | re.MULTILINE)
    for block in re.findall(r"(?:^    .*\n)+", unfenced, re.MULTILINE):
        if not block.endswith(_ENDLESS):
            yield re.sub(r"^    ", "", block, flags=re.MULTILINE)


@pytest.mark.skipif(bool(_NEEDED), reason=f"needs {', '.join(_NEEDED)}")
def test_the_page_runs_from_top_to_bottom(tmp_path: Path) -> None:
    script = _STRICT + "\n".join(_blocks(_PAGE.read_text())).replace(".venv/bin/relay-localcloud serve", _SERVED)
    ran = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert '"content":"hello"' in ran.stdout.splitlines()[-2]
