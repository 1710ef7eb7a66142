"""`kubectl relay plan`, as people run it before they apply something that costs money."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.cluster.cloud_log import changes
from tests.support.eventually import eventually
from tests.support.manifests import cloud_account, condition, gpu_cluster, gpu_pod

if TYPE_CHECKING:
    from tests.support.controlplane import Cluster
    from tests.support.kube import Manifest
    from tests.support.kubectl import Kubectl
    from tests.support.workspace import Workspace

_NONE = "accounts, batches, schedules, and objects of others have none"


async def _plan(workspace: Workspace, *arguments: str, stdin: Manifest | None = None) -> list[dict[str, Any]]:
    text = "" if stdin is None else json.dumps(stdin)
    told = await workspace.kubectl.relay("plan", *arguments, "--output=json", stdin=text)
    assert (told.exit_code, told.stderr) == (0, "")
    return list(json.loads(told.stdout)["items"])


async def _as(workspace: Workspace, cluster: Cluster, name: str) -> Kubectl:
    await workspace.kube.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
    return replace(workspace.kubectl, kubeconfig=await cluster.service_account_kubeconfig(workspace.namespace, name))


async def test_what_applying_would_do_is_told_and_nothing_is_done(workspace: Workspace) -> None:
    await workspace.becomes("CloudAccount", "default")
    manifest = gpu_pod(updateStrategy={"type": "Recreate"})
    (plan,) = await _plan(workspace, "-f", "-", stdin=manifest)
    assert (plan["action"], plan["reason"]) == ("Create", "nothing of it is in the cloud")
    assert (await changes(workspace), await workspace.kube.find("GpuPod", "trainer")) == ([], None)

    await workspace.apply(manifest)
    pod = await workspace.becomes("GpuPod", "trainer")
    assert plan["pricePerHourCents"] == pod["status"]["pricePerHourCents"]
    (plan,) = await _plan(workspace, "gpod/trainer")
    assert (plan["action"], plan["pricePerHourCentsNow"]) == ("None", plan["pricePerHourCents"])

    bigger = gpu_pod(updateStrategy={"type": "Recreate"}, gpu={"modelId": "l40s", "count": 2})
    (plan,) = await _plan(workspace, "-f", "-", stdin=bigger)
    assert (plan["action"], plan["loses"]) == ("Recreate", [f"{pod['status']['id']} is ended, and its volume with it"])
    assert plan["pricePerHourCents"] == 2 * plan["pricePerHourCentsNow"]
    shown = await workspace.kubectl.relay("plan", "-f", "-", stdin=json.dumps(bigger))
    assert all(len(line) <= 80 for line in shown.stdout.splitlines())
    assert len(await changes(workspace)) == 1
    assert (await workspace.kube.get("GpuPod", "trainer"))["metadata"]["generation"] == pod["metadata"]["generation"]


async def test_a_cluster_that_would_grow_beyond_its_budget_says_so(workspace: Workspace) -> None:
    await workspace.apply(gpu_cluster("web"))
    await workspace.becomes("GpuCluster", "web")
    grown = gpu_cluster("web", replicas=3, budget={"maxPricePerHourCents": 1})
    (plan,) = await _plan(workspace, "-f", "-", stdin=grown)
    assert (plan["action"], "budget.maxPricePerHourCents is 1" in plan["reason"]) == ("None", True)
    (plan,) = await _plan(workspace, "-f", "-", stdin=gpu_cluster("web", replicas=3))
    assert plan["action"] == "Scale"


async def test_what_waits_for_funds_is_not_planned_before_its_next_attempt(workspace: Workspace) -> None:
    await workspace.becomes("CloudAccount", "default")
    await workspace.cloud.control.change_organization(workspace.organization.id, balanceCents=0)
    await workspace.apply(gpu_pod())
    pod = await workspace.becomes("GpuPod", "trainer", lambda item: bool(condition(item, "BudgetExceeded")))
    (plan,) = await _plan(workspace, "gpod/trainer")
    told, agreed = condition(pod, "Ready")["message"], pod["status"]["nextAttemptTime"]
    assert (plan["action"], plan["reason"]) == ("None", f"nothing is tried before {agreed}: {told}")


async def test_an_account_whose_url_is_not_plain_spoils_only_the_plans_of_its_own_objects(workspace: Workspace) -> None:
    await workspace.becomes("CloudAccount", "default")
    await workspace.apply(cloud_account("http://cloud.example:99999", "http://cloud.example", "far"))
    (plan,) = await _plan(workspace, "-f", "-", stdin=gpu_pod())
    assert plan["action"] == "Create"
    (plan,) = await _plan(workspace, "-f", "-", stdin=gpu_pod(accountRef={"name": "far"}))
    assert (plan["action"], "'http://cloud.example:99999' is not a plain URL" in plan["reason"]) == ("None", True)


async def test_what_cannot_be_planned_is_said_in_a_sentence(workspace: Workspace, cluster: Cluster) -> None:
    for arguments, sentence in {
        (): "name either one object, as in gpod/trainer, or files with -f",
        ("gpod/trainer", "-f", "-"): "name either one object, as in gpod/trainer, or files with -f",
        ("gpod/trainer",): 'gpupods.gpurelay.dev "trainer" not found',
        ("cacct/default",): f"there is no plan for cacct/default: {_NONE}",
        ("secret/relay-api-key",): f"there is no plan for secret/relay-api-key: {_NONE}",
    }.items():
        refused = await workspace.kubectl.relay("plan", *arguments)
        assert (refused.exit_code > 0, refused.stderr) == (True, f"kubectl relay: {sentence}\n")
    nobody = await _as(workspace, cluster, "nobody")
    refused = await nobody.relay("plan", "-f", "-", stdin=json.dumps(gpu_pod()))
    assert (refused.exit_code, refused.stdout, "ask an administrator" in refused.stderr) == (1, "", True)


async def test_who_may_see_one_namespace_is_told_that_budgets_may_have_less_room(
    workspace: Workspace, cluster: Cluster
) -> None:
    await workspace.becomes("CloudAccount", "default")
    tenant = await _as(workspace, cluster, "tenant")
    rules = [
        {"apiGroups": ["gpurelay.dev"], "resources": ["*"], "verbs": ["get", "list", "create", "patch"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]},
    ]
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "tenant"}}
    await workspace.kube.create({**role, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": "tenant", "namespace": workspace.namespace}
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "tenant"}
    await workspace.kube.create({**role, "kind": "RoleBinding", "roleRef": ref, "subjects": [subject]})
    told = await eventually(
        partial(tenant.relay, "plan", "-f", "-", stdin=json.dumps(gpu_pod())),
        lambda told: told.exit_code == 0,
        what="its rights are in force",
    )
    assert "Create" in told.stdout, told
    assert "you may not list these in all namespaces, so budgets are checked without: cloudaccounts, " in told.stderr
