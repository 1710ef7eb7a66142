"""What becomes of a command if kubectl's proxy does not begin to serve."""

import pytest

from relay_cli.failures import Failure
from relay_cli.kubectl import Kubectl
from tests.unit.cli.conftest import Scripted


@pytest.mark.parametrize(
    ("does", "sentence"),
    [
        ("exec sleep 1000", "kubectl proxy was not ready after 0.2 seconds"),
        ("echo 'error: no configuration' >&2; exit 1", "no configuration"),
    ],
    ids=["hangs", "ends"],
)
async def test_a_proxy_that_does_not_serve_is_a_failure(
    kubectl: Scripted, monkeypatch: pytest.MonkeyPatch, does: str, sentence: str
) -> None:
    kubectl(does)
    monkeypatch.setattr("relay_cli.kubectl._READY_SECONDS", 0.2)
    with pytest.raises(Failure, match=sentence):
        async with Kubectl().proxy():
            pass
