"""What a preview does with API servers that do not have, or do not show, everything, and with accounts of releases."""

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from relay_cli.failures import Failure, Status
from relay_cli.kubectl import Kubectl
from relay_cli.plan import plan
from relay_operator.api.meta import ObjectKey
from relay_operator.api.plan import PlannedAction
from relay_operator.preview import preview
from tests.unit.cli.conftest import Scripted

POD: dict[str, Any] = {
    "apiVersion": "gpurelay.dev/v1alpha1",
    "kind": "GpuPod",
    "metadata": {"name": "trainer", "namespace": "ml", "uid": "u", "resourceVersion": "1", "generation": 1},
    "spec": {"image": "pytorch/pytorch:2.9.0", "gpu": {"modelId": "h100", "count": 1}},
}
SERVED = ("gpupods", "cloudaccounts", "clustercloudaccounts")
NAMESPACE = {"kind": "Namespace", "metadata": {"name": "ml", "uid": "n", "resourceVersion": "1"}}
URL = "https://cloud.example"


def _account(kind: str, name: str, spec: dict[str, Any], **ready: Any) -> dict[str, Any]:
    """An account whose `Ready` says this; its status is empty if it says nothing."""
    metadata = {"name": name, "uid": name, "resourceVersion": "1", "generation": 1}
    if kind == "CloudAccount":
        metadata["namespace"] = "ml"
    told = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-23T08:00:00Z", "message": "", **ready}
    return {"kind": kind, "metadata": metadata, "spec": spec, "status": {"conditions": [told]} if ready else {}}


def _shared(namespace: str, **ready: Any) -> dict[str, Any]:
    """A shared account that has the name of the namespace with its Secret."""
    ref = {"name": "key", "key": "api-key", "namespace": namespace}
    spec = {"apiKeySecretRef": ref, "allowedNamespaces": {}, "baseUrl": f"{URL}/{namespace}"}
    return _account("ClusterCloudAccount", namespace, spec, **ready)


def _pod(account: str) -> dict[str, Any]:
    ref = {"kind": "ClusterCloudAccount", "name": account}
    return {**POD, "metadata": {**POD["metadata"], "name": account}, "spec": {**POD["spec"], "accountRef": ref}}


@pytest.fixture
def all_namespaces() -> bool:
    """Whether the caller may list objects in all namespaces."""
    return True


@pytest.fixture
def accounts() -> Sequence[dict[str, Any]]:
    """The accounts of the cluster."""
    return ()


@pytest_asyncio.fixture
async def proxy(tmp_path: Path, all_namespaces: bool, accounts: Sequence[dict[str, Any]]) -> AsyncIterator[Path]:
    """The socket of an API server that has the CRDs of SERVED alone, these accounts, and no Secrets."""

    def listed(path: str) -> Iterator[dict[str, Any]]:
        return (one for one in accounts if path.endswith(f"/{one['kind'].lower()}s"))

    async def answer(request: web.Request) -> web.Response:
        if not all_namespaces and "/namespaces/ml/" not in request.path:
            return web.json_response({"kind": "Status", "reason": "Forbidden"}, status=403)
        if request.path.endswith("/namespaces/ml"):
            return web.json_response(NAMESPACE)
        if "/secrets/" in request.path:
            return web.json_response({"kind": "Status", "reason": "NotFound"}, status=404)
        if not request.path.endswith(SERVED):
            return web.Response(status=404, text="404 page not found\n")
        return web.json_response({"items": [*listed(request.path)], "metadata": {"resourceVersion": "1"}})

    runner = web.AppRunner(web.Application())
    runner.app.router.add_get("/{path:.*}", answer)
    await runner.setup()
    await web.UnixSite(runner, str(tmp_path / "api")).start()
    yield tmp_path / "api"
    await runner.cleanup()


@pytest.mark.parametrize("all_namespaces", [True, False], ids=["everywhere", "in one namespace"])
async def test_a_cluster_without_some_crds_still_gets_plans(proxy: Path, all_namespaces: bool) -> None:
    found = await preview(proxy, [POD], "")
    (plan,) = found.plans.values()
    assert plan.reason.startswith("the namespace ml has no CloudAccount named default, ")
    assert bool(found.unlisted) is not all_namespaces


RELEASES = ("team-a", "team-b", "team-c")
ACCEPTED = {"reason": "Available", "observedGeneration": 1}
REFUSED = {"status": "False", "reason": "AccountNotAllowed", "message": "the URL is not allowed"}


@pytest.mark.parametrize("accounts", [[_shared(release, **ACCEPTED) for release in RELEASES]])
async def test_each_object_is_planned_by_the_operator_beside_the_secret_of_its_account(proxy: Path) -> None:
    found = await preview(proxy, map(_pod, RELEASES), "")
    assert [plan.reason for plan in found.plans.values()] == [
        f"the Secret key does not exist in the namespace {release}" for release in RELEASES
    ]


@pytest.mark.parametrize(
    ("accounts", "why"),
    [
        ([_shared("team-a")], " yet"),
        ([_shared("team-a", **REFUSED, observedGeneration=0)], " yet"),
        ([_shared("team-a", **REFUSED, observedGeneration=1)], ": the URL is not allowed"),
    ],
    ids=["new", "changed", "refused"],
)
async def test_a_shared_account_that_its_operator_has_not_accepted_is_not_used(proxy: Path, why: str) -> None:
    found = await preview(proxy, [_pod("team-a")], URL)
    plan = found.plans[ObjectKey("GpuPod", "ml", "team-a")]
    assert (plan.action, plan.reason) == (
        PlannedAction.NONE,
        f"no operator has accepted ClusterCloudAccount/team-a{why}",
    )


WITHOUT_URL = _account("CloudAccount", "default", {"apiKeySecretRef": {"name": "key", "key": "api-key"}}, **ACCEPTED)


@pytest.mark.parametrize("accounts", [[WITHOUT_URL]])
async def test_a_cloud_that_only_the_operator_knows_is_asked_for(
    proxy: Path, kubectl: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @asynccontextmanager
    async def served(_: Kubectl) -> AsyncIterator[Path]:
        yield proxy

    (tmp_path / "pod").write_text(json.dumps(POD))
    kubectl("cat pod")
    monkeypatch.setattr(Kubectl, "proxy", served)
    with pytest.raises(Failure) as failed:
        await plan(Kubectl(), "gpod/trainer")
    assert failed.value.status is Status.MISUSED
    assert str(failed.value).startswith("CloudAccount/ml/default has no spec.baseUrl, and this command does not know ")
    (told,) = (await preview(proxy, [POD], URL)).plans.values()
    assert told.reason == "the Secret key does not exist in the namespace ml"
