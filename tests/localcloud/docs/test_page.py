"""The pages of the local cloud and of the client do what they say: each runs from top to bottom, in a fresh folder."""

import os
from pathlib import Path

import pytest

from tests.localcloud.support.server import COMMAND
from tests.support.pages import LACKING, NOT_RUN, blocks, of_the_cloud, pages, ran, script
from tests.support.toolchain import REPOSITORY

_PORTS = "--port 0 --inference-port 0 --gateway-port 0 --ssh-port 0"
_SERVED = """
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
_CLIENT = """
served serve --ephemeral --clock real
curl -s $(jq -r .controlUrl cloud.json)/clock -d '{"mode":"scaled","rate":3600}'
export CLOUD=$(jq -r .managementUrl cloud.json) INFERENCE=$(jq -r .inferenceUrl cloud.json)
export KEY=$(jq -r .apiKey cloud.json)
"""
"""The cloud's hour is a second here."""
_BEGUN = """
served serve
CLOUD=$(jq -r .managementUrl cloud.json) CONTROL=$(jq -r .controlUrl cloud.json) GATEWAY=$(jq -r .gatewayUrl cloud.json)
KEY=$(jq -r .apiKey cloud.json) ORG=$(jq -r .organizationId cloud.json)
NEW='{"image":"pytorch/pytorch:2.9.0","gpuModelId":"h100"}'
POD=$(curl -s $CLOUD/v1/pods -H "Authorization: Bearer $KEY" -d "$NEW" | jq -r .id)
"""
"""What docs/localcloud.md begins with."""
_GUARDED = """
TOKEN=secret
echo $TOKEN > token
served serve --admin-token-file token
CONTROL=$(jq -r .controlUrl cloud.json)
"""
_BEFORE = {
    "docs/localcloud.md": "export INFERENCE KEY\n",
    "docs/localcloud/backup.md": _ENDED + "relay-localcloud serve --state DIR\n",
    "docs/localcloud/billing.md": _KNOWN,
    "docs/localcloud/control.md": _BEGUN,
    "docs/localcloud/in-a-cluster.md": _GUARDED,
    "docs/python-client.md": _CLIENT,
}
"""What a page takes for granted."""
_AFTER = {"docs/python-client.md": "jq -r .custom_id answers.jsonl | sort -u | wc -l\n"}
_LAST = {"docs/localcloud.md": '"content":"hello"', "docs/python-client.md": "1000"}
"""What the last two lines that a page prints hold, after what was asked at last."""
_INSTEAD = {
    ".venv/bin/relay-localcloud serve": f"{COMMAND} serve {_PORTS}",
    "seconds: float = 30": "seconds: float = 0.2",
}
PAGES = [page for page in pages() if of_the_cloud(page) and script(page)]


def _shown(page: str) -> str:
    """What it has its reader run, on free ports."""
    lines = script(page)
    for written, instead in _INSTEAD.items():
        lines = lines.replace(written, instead)
    return lines


@pytest.mark.skipif(bool(LACKING), reason=f"needs {', '.join(LACKING)}")
@pytest.mark.parametrize("page", PAGES)
def test_a_page_runs_from_top_to_bottom(page: str, tmp_path: Path) -> None:
    path = {"PATH": f"{COMMAND.parent}:{os.environ['PATH']}", "PYTHONPATH": str(REPOSITORY / "operator")}
    lines = "\n".join((_SERVED, _BEFORE.get(page, ""), _shown(page), _AFTER.get(page, "")))
    assert _LAST.get(page, "") in "".join(ran(lines, tmp_path, os.environ | path).splitlines()[-2:])


@pytest.mark.parametrize("page", pages())
def test_every_reason_stands_before_a_block(page: str) -> None:
    reasons = (REPOSITORY / page).read_text().count(NOT_RUN)
    assert reasons == len([block for block in blocks(page) if block.why_not])
