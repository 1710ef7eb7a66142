"""Whom `kubectl relay ssh` lets in where, and what ssh is told."""

from typing import Any

import pytest

from relay_cli.failures import Failure, Status
from relay_cli.kubectl import parsed
from relay_cli.objects import CloudObject
from relay_cli.ssh import arguments, running_id
from relay_operator.api.cloudaccount import CloudAccount


def _account(gateway: str | None) -> CloudAccount:
    spec = {"apiKeySecretRef": {"name": "key", "key": "api-key"}, "sshGateway": gateway}
    return parsed(CloudAccount, {"metadata": {"name": "default", "namespace": "ml"}, "spec": spec, "status": {}})


def _object(kind: str = "GpuPod", **status: Any) -> CloudObject:
    return parsed(
        CloudObject, {"kind": kind, "metadata": {"name": "x", "namespace": "ml"}, "spec": {}, "status": status}
    )


@pytest.mark.parametrize(
    ("gateway", "host", "port"),
    [("ssh.example.com:22", "ssh.example.com", "22"), ("[::1]:8403", "::1", "8403"), ("10.0.0.1:1", "10.0.0.1", "1")],
)
def test_at_the_gateway_the_id_is_the_user(gateway: str, host: str, port: str) -> None:
    assert arguments(_account(gateway), "pod_1", ["nvidia-smi", "-L"]) == [
        *("ssh", "-p", port, "-l", "pod_1", "--"),
        *(host, "nvidia-smi", "-L"),
    ]


@pytest.mark.parametrize("gateway", ["ssh.example.com", "-oProxyCommand=x:22", ":22", "a b:22", "a:123456", "a:"])
def test_what_is_no_host_and_port_is_no_gateway(gateway: str) -> None:
    with pytest.raises(Failure, match="sshGateway"):
        _account(gateway)


def test_without_a_gateway_it_says_where_to_name_one() -> None:
    with pytest.raises(Failure, match=r"^CloudAccount/ml/default has no spec\.sshGateway: "):
        arguments(_account(None), "pod_1", [])


@pytest.mark.parametrize("status", [{}, {"id": "pod_1"}, {"id": "pod_1", "state": "stopped"}, {"state": "running"}])
def test_nobody_logs_in_where_nothing_runs(status: dict[str, Any]) -> None:
    with pytest.raises(Failure, match=r"^GpuPod/ml/x is not running"):
        running_id(_object(**status))


def test_a_cluster_is_no_single_place_to_log_in() -> None:
    with pytest.raises(Failure, match="these kinds do: GpuPod, GpuVm") as failed:
        running_id(_object("GpuCluster", id="cluster_1", state="running"))
    assert failed.value.status is Status.MISUSED
    assert running_id(_object("GpuVm", id="vm_1", state="running")) == "vm_1"
