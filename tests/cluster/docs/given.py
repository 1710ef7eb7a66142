"""What each page takes for granted: objects and files that its reader has, and what stands where it says `...`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.support.eventually import eventually
from tests.support.process import free_port

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.support.workspace import Workspace

Instead = dict[str, str]
"""What is run by what is written."""

FUNCTIONS: Final = """
asked() { curl -s -X "$1" "$CLOUD$2" -H "Authorization: Bearer $KEY" ${3:+-d "$3"} > /dev/null; }
control() { curl -s -X "$1" "$CONTROL$2" ${3:+-d "$3"} > /dev/null; }
readied() { kubectl wait --for=condition=Ready "$@" --timeout=3m > /dev/null; }
"""
_PROMPTS = """
echo '{"custom_id": "r1", "body": {"messages": [{"role": "user", "content": "hello"}]}}' > input.jsonl
"""
_TRAINER = """
kubectl apply -f examples/gpupod.yaml
"""
# Nothing runs Pods here: what helm would install is rendered, with all values so far.
_HELM = """
VALUES=()
helm() {
  shift 3
  local given
  for given; do [[ $given = --reset-then-reuse-values || $given = --create-namespace ]] || VALUES+=("$given"); done
  command helm template relay-operator charts/relay-operator "${VALUES[@]}" > /dev/null
}
"""
# The cluster has no Prometheus operator.
_PROMETHEUS = """
VALUES+=(--api-versions monitoring.coreos.com/v1/ServiceMonitor --api-versions monitoring.coreos.com/v1/PrometheusRule)
"""
_BATCHES = """
control PATCH /settings '{"batchRecordSeconds": 0.01}'
kubectl apply -f examples/inferencebatch-prompts.yaml -f examples/inferencebatch.yaml
for name in many held; do
  sed "s/capitals/$name/; s/name: answers/name: $name/" examples/inferencebatch.yaml | kubectl apply -f -
done
kubectl wait --for=condition=Complete ibatch/capitals --timeout=3m
"""
_REVIEWS = """
echo '{"id": 1001, "text": "Fits perfectly"}' > reviews.jsonl
printf '{"custom_id": "a", "body": {}}\\n{"custom_id": "a", "body": {}}\\n' > bad.jsonl
kubectl create configmap reviews-bad --from-file=input.jsonl=bad.jsonl
sed 's/capitals/reviews-bad/; s/prompts/reviews-bad/; s/name: answers/name: none/' examples/inferencebatch.yaml \\
  | kubectl apply -f -
"""
_CLI = """
cp examples/gpupod.yaml trainer.yaml
kubectl apply -f trainer.yaml -f examples/sshkey.yaml -f examples/gpuvm.yaml
kubectl create -f - <<END
apiVersion: gpurelay.dev/v1alpha1
kind: GpuPod
metadata: {name: notebook, annotations: {gpurelay.dev/paused: "true"}}
spec: {image: pytorch/pytorch:2.9.0, gpu: {modelId: l40s, count: 1}}
END
kubectl patch cacct default --type=merge -p '{"spec":{"sshGateway":"ssh.example.com:22"}}'
control POST "/orgs/$ORG/cards" '{}'
printf '#!/bin/sh\\necho "$@"\\n' > ssh
chmod +x ssh
PATH=$PWD:$PATH
readied gpod/trainer gvm/box
until kubectl get gmodel l40s > /dev/null 2>&1; do sleep 0.2; done
"""
_LOST = """
kubectl create -f - <<END
apiVersion: gpurelay.dev/v1alpha1
kind: GpuPod
metadata: {name: lost, annotations: {gpurelay.dev/create-intent: "{"}}
spec: {image: pytorch/pytorch:2.9.0, gpu: {modelId: l40s, count: 1}}
END
kubectl wait --for=condition=Stalled gpod/lost --timeout=3m
"""
_WITHOUT_ACCOUNT = """
kubectl delete cacct default
kubectl delete secret relay-api-key
"""
_SHARED = """
kubectl create namespace team-a
ended() {
  kubectl delete ccacct default --wait=false
  kubectl -n relay-system delete secret research-key
  kubectl delete namespace team-a --wait=false
}
"""
_MODEL = """
asked POST /v1/inference/models/llama/backends \\
  '{"provider":"openai_compatible","ref":"llama-3","endpoint":"https://llama.example/v1","nativeFamilies":["chat_completions"]}'
"""
_RACK = """
kubectl create -f - <<END
apiVersion: gpurelay.dev/v1alpha1
kind: ProviderNode
metadata: {name: rack1}
spec: {nodeId: $NODE, status: online}
END
"""
_BOX = """
control POST /clock '{"mode": "scaled", "rate": 20}'
kubectl apply -f examples/sshkey.yaml -f examples/gpuvm.yaml
"""
BEFORE: Final = {
    "docs/batches/costs.md": _BATCHES,
    "docs/batches/from-a-file-to-answers.md": _REVIEWS,
    "docs/cli.md": _CLI,
    "docs/create-protocol.md": _LOST,
    "docs/getting-started.md": _HELM + _WITHOUT_ACCOUNT,
    "docs/gitops.md": "kubectl create configmap argocd-cm\n",
    "docs/kinds/cloudaccount.md": _WITHOUT_ACCOUNT + _TRAINER,
    "docs/kinds/clustercloudaccount.md": _SHARED,
    "docs/kinds/gpumodel.md": "until kubectl get gmodel catalog > /dev/null 2>&1; do sleep 0.2; done\n",
    "docs/kinds/inferencebatch.md": _PROMPTS,
    "docs/kinds/inferencebatchschedule.md": _PROMPTS,
    "docs/kinds/nodereservation.md": _RACK,
    "docs/kinds/organizationmember.md": """control POST /users '{"email": "ada@example.com"}'\n""",
    "docs/kinds/provisioningtoken.md": """control PATCH "/orgs/$ORG" '{"provider": true}'\n""",
    "docs/kinds/servingdeployment.md": _MODEL,
    "docs/kinds/vmsnapshot.md": _BOX,
    "docs/metrics.md": _HELM + _PROMETHEUS,
    "docs/operations.md": _HELM,
}
"""Lines of shell by page."""


async def _node(workspace: Workspace) -> Instead:
    """A node with two GPUs that the organization brought in."""
    control, own = workspace.cloud.control, workspace.organization
    await control.change_organization(own.id, provider=True)
    token = await own.call("POST", f"/v1/orgs/{own.id}/provider/tokens", {"maxNodes": 1})
    node_id: str = (await control.add_node("l40s", 2, provisioningToken=token["token"], orgId=own.id))["id"]
    return {"node_5d2c...": node_id, "$NODE": node_id, "org_9a1f...": own.id}


async def _pod_made_by_hand(workspace: Workspace) -> Instead:
    body = {"image": "pytorch/pytorch:2.9.0", "name": "by-hand", "gpuModelId": "l40s"}
    cloud_id: str = (await workspace.organization.call("POST", "/v1/pods", body))["id"]
    await eventually(lambda: workspace.organization.vm(cloud_id), lambda vm: vm["status"] == "running")
    return {"pod_5bf55a2cb215": cloud_id, "https://api.example.com": workspace.cloud.management_url}


async def _executor(_: Workspace) -> Instead:
    port = free_port()
    return {"127.0.0.1:9000": f"127.0.0.1:{port}", '("127.0.0.1", 9000)': f'("127.0.0.1", {port})'}


async def _own_namespace(workspace: Workspace) -> Instead:
    """The page's namespace is the test's."""
    own = f"--namespace {workspace.namespace}"
    instead = {"kubectl create namespace gpu\n": "", "-n gpu": own, "--all-namespaces": own, "cacct,ccacct": "cacct"}
    return instead | {"kubectl get gpurelay -A": f"kubectl get gpurelay {own}"}


GIVEN: Final[dict[str, Callable[[Workspace], Awaitable[Instead]]]] = {
    "docs/batches/tool-rounds.md": _executor,
    "docs/cli.md": _pod_made_by_hand,
    "docs/getting-started.md": _own_namespace,
    "docs/kinds/nodereservation.md": _node,
    "docs/kinds/providernode.md": _node,
}
"""What is made in the cloud first, and what its names and ids stand for."""


def everywhere(workspace: Workspace) -> Instead:
    """What every page calls by names of its own."""
    return {
        "http://127.0.0.1:8400": workspace.cloud.management_url,
        "$PWD/.demo/controlplane/kubeconfig": "$KUBECONFIG",
        "--namespace argocd ": "",
        "-n default": "",
        "reviews.jsonl > input.jsonl": "reviews.jsonl > other.jsonl",
        "or_...": workspace.organization.api_key,
    }
