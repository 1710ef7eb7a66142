"""What an organization has from before is as it would be made now, also if nothing of it starts any more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from relay_localcloud.runtimes.kubernetes import reconcile
from relay_localcloud.runtimes.kubernetes.tenants import Gateway
from tests.support.eventually import eventually

if TYPE_CHECKING:
    import pytest

    from tests.cluster.kubernetes_runtime.stage import Stage


async def admitted(stage: Stage) -> list[Any]:
    """From where the organization's Pods may be reached."""
    policy = await stage.kube.get("NetworkPolicy", "relay", stage.namespace)
    return [each for rule in policy["spec"]["ingress"] for each in rule["from"]]


async def level(stage: Stage) -> str:
    """The Pod security standard of the organization's namespace."""
    namespace = await stage.kube.get("Namespace", stage.namespace)
    return str(namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"])


async def test_after_a_start_with_other_settings_namespaces_and_policies_follow_them(stage: Stage) -> None:
    await stage.runs()
    assert await level(stage) == "baseline"
    await stage.end()
    stage.terms["privileged_allowed"] = True
    stage.gateway = Gateway(networks=("192.0.2.7/32",))
    await stage.start()
    await eventually(lambda: level(stage), lambda now: now == "privileged")
    await eventually(lambda: admitted(stage), lambda now: now == [{"ipBlock": {"cidr": "192.0.2.7/32"}}])


async def test_a_gateway_that_moves_while_the_cloud_runs_reaches_the_pods_that_run(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stage.end()
    monkeypatch.setattr(reconcile, "LOOK_SECONDS", 0.1)
    await stage.start()
    await stage.runs()
    stage.gateway = Gateway(networks=("192.0.2.8/32",))
    await eventually(lambda: admitted(stage), lambda now: now == [{"ipBlock": {"cidr": "192.0.2.8/32"}}])
