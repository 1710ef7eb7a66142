"""What kubectl is told in a Pod, where it uses the ServiceAccount unless an option changes its connection."""

import asyncio
from pathlib import Path

import pytest

from relay_cli.failures import Failure
from relay_cli.kubectl import Kubectl, is_in_pod
from tests.support.eventually import PATIENCE_SECONDS
from tests.unit.cli.conftest import Scripted

IN_POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
HAS_FLAG = 'case "$*" in *--request-timeout*)'


@pytest.fixture(autouse=True)
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of a Pod without a kubeconfig."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", IN_POD["KUBERNETES_SERVICE_HOST"])


async def test_requests_have_a_bound_unless_kubectl_would_no_longer_use_the_service_account(
    kubectl: Scripted, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    config.write_text("clusters: [{name: one, cluster: {server: 'https://one.example'}}]")
    kubectl(f"{HAS_FLAG} echo 'error: localhost:8080 was refused' >&2; exit 1;; esac; echo '{{\"items\": []}}'")
    assert await Kubectl(namespace="ml").list(["gpupods"]) == []
    with pytest.raises(Failure, match="refused"):
        await Kubectl(kubeconfig=str(config)).list(["gpupods"])


async def test_a_kubectl_that_does_not_end_there_is_ended(kubectl: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relay_cli.kubectl._POD_SECONDS", 0.1)
    kubectl("exec sleep 1000")
    async with asyncio.timeout(PATIENCE_SECONDS):
        with pytest.raises(Failure, match=r"^kubectl did not end within 0.1 seconds"):
            await Kubectl().list(["gpupods"])


async def test_what_a_person_still_writes_is_awaited(kubectl: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relay_cli.kubectl._POD_SECONDS", 0)
    kubectl('echo \'{"kind": "GpuPod"}\'')
    assert await Kubectl().would_apply(["-"]) == [{"kind": "GpuPod"}]


def test_a_kubeconfig_that_names_a_server_is_used_instead_of_the_service_account(tmp_path: Path) -> None:
    usual, other, empty = tmp_path / ".kube" / "config", tmp_path / "other", tmp_path / "empty"
    usual.parent.mkdir()
    usual.write_text('{"clusters": [{"cluster": {"server": "https://one.example"}}]}')
    other.write_text("clusters:\n- cluster: {server: 'https://two.example'}\n")
    empty.write_text("current-context: one\ncontexts: [{name: one, context: {namespace: ml}}]\n")
    nowhere = str(tmp_path / "nowhere")
    assert [
        is_in_pod(kubeconfig, environment)
        for kubeconfig, environment in (
            ("", {}),
            ("", IN_POD),
            ("", IN_POD | {"HOME": nowhere}),
            ("", IN_POD | {"HOME": nowhere, "KUBECONFIG": f"{nowhere}:{empty}"}),
            ("", IN_POD | {"HOME": str(tmp_path), "KUBECONFIG": nowhere}),
            ("", IN_POD | {"HOME": str(tmp_path)}),
            ("", IN_POD | {"HOME": str(tmp_path), "KUBECONFIG": ""}),
            ("", IN_POD | {"HOME": nowhere, "KUBECONFIG": f"{empty}:{other}"}),
            (str(other), IN_POD | {"HOME": nowhere}),
        )
    ] == [False, True, True, True, True, False, False, False, False]
