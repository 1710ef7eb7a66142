"""The pages of the local cloud do what they say: their shell blocks run from top to bottom, in one shell each."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.localcloud.docs.blocks import ROOT, blocks, script
from tests.localcloud.support.server import COMMAND

_PORTS = "--port 0 --inference-port 0 --gateway-port 0"
_STRICT = """set -eu -o pipefail
trap 'kill $(jobs -p) 2> /dev/null || true' EXIT
curl() { command curl --fail-with-body --show-error "$@" || { echo "refused: curl $*" >&2; return 1; }; }
served() {
  command relay-localcloud "$@" PORTS > cloud.json &
  until [ -s cloud.json ]; do kill -0 $!; sleep 0.05; done
}
""".replace("PORTS", _PORTS)
_ENDED = """
relay-localcloud() {
  if [ "$1" != serve ]; then command relay-localcloud "$@"; return; fi
  served "$@"
  kill $!
  wait $!
  rm cloud.json
}
"""
"""A cloud that the page starts stays for its readers; here it ends once it is ready."""
_KNOWN = """
served serve
CONTROL=$(jq -r .controlUrl cloud.json) ORG=$(jq -r .organizationId cloud.json)
"""
_BEFORE = {
    "README.md": "",
    "docs/localcloud.md": "",
    "docs/localcloud/backup.md": _ENDED + "relay-localcloud serve --state DIR\n",
    "docs/localcloud/billing.md": _KNOWN,
    "docs/localcloud/clock.md": "",
    "docs/localcloud/console.md": "",
    "docs/localcloud/testing.md": "",
}
"""What each page takes for granted."""
_LAST = {"docs/localcloud.md": '"content":"hello"'}
"""What the last two lines that a page prints hold."""
_NEEDED = [program for program in ("bash", "curl", "jq") if shutil.which(program) is None]


def _ran(page: str, folder: Path) -> str:
    """What its blocks print."""
    shown = script(page).replace(".venv/bin/relay-localcloud serve", f"{COMMAND} serve {_PORTS}")
    environment = {**os.environ, "PATH": f"{COMMAND.parent}:{os.environ['PATH']}"}
    ran = subprocess.run(
        ["bash", "-c", _STRICT + _BEFORE[page] + shown],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return ran.stdout


@pytest.mark.skipif(bool(_NEEDED), reason=f"needs {', '.join(_NEEDED)}")
@pytest.mark.parametrize("page", [page for page in _BEFORE if script(page)])
def test_a_page_runs_from_top_to_bottom(page: str, tmp_path: Path) -> None:
    assert _LAST.get(page, "") in "".join(_ran(page, tmp_path).splitlines()[-2:])


def test_every_page_of_the_local_cloud_that_has_blocks_is_run() -> None:
    pages = (str(path.relative_to(ROOT)) for path in (ROOT / "docs" / "localcloud").glob("*.md"))
    assert {page for page in pages if blocks(page)} <= set(_BEFORE)


@pytest.mark.parametrize("page", _BEFORE)
def test_every_reason_stands_before_a_block(page: str) -> None:
    reasons = re.findall("<!-- not run: ", (ROOT / page).read_text())
    assert len(reasons) == len([block for block in blocks(page) if block.why_not])
