"""A kind's file has what is the kind's own; one that grows past its limit shows what the contract should carry."""

from pathlib import Path

import pytest

from relay_operator import kinds

LIMITS = {
    "apikey": 170,
    "gpuvm": 190,
    "nodereservation": 140,
    "providernode": 150,
    "provisioningtoken": 110,
    "registrycredential": 120,
    "runnerpool": 140,
    "servingdeployment": 230,
    "sshkey": 90,
    "vmsnapshot": 150,
}
"""Lines; `docs/decisions/0039-lengths-of-kinds.md` says why these."""


@pytest.mark.parametrize(("kind", "limit"), LIMITS.items())
def test_a_kind_is_no_longer_than_its_limit(kind: str, limit: int) -> None:
    lines = len((Path(kinds.__path__[0]) / f"{kind}.py").read_text().splitlines())
    assert lines <= limit, f"kinds/{kind}.py: let the contract carry what other kinds repeat, or change the limit there"
