#!/usr/bin/env bash
# install.sh: installs the local cloud, the chart, and examples/ (in the namespace `demo`) in the cluster of KUBECONFIG, which has both images.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
CLOUD=http://relay-localcloud.relay-cloud.svc.cluster.local
kubectl apply --filename tests/node/cloud.yaml
kubectl get secret relay-localcloud-admin --namespace relay-cloud > /dev/null 2>&1 ||
  kubectl create secret generic relay-localcloud-admin --namespace relay-cloud --from-literal=token="$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')"
kubectl rollout status deployment/relay-localcloud --namespace relay-cloud --timeout=120s
[ -z "$(helm list --namespace relay-system --filter '^relay-operator$' --short)" ] || INSTALLED=yes
helm upgrade --install relay-operator charts/relay-operator --namespace relay-system --create-namespace --wait --timeout 120s \
  --set cloud.baseUrl=$CLOUD:8400 --set cloud.inferenceUrl=$CLOUD:8401 \
  --set webhook.publicUrl=http://relay-operator-webhook.relay-system.svc.cluster.local
if [ -n "${INSTALLED:-}" ]; then  # the tag stays the same while the image changes
  kubectl rollout restart deployment/relay-operator --namespace relay-system
  kubectl rollout status deployment/relay-operator --namespace relay-system --timeout=120s
fi
KEY=$(kubectl logs deployment/relay-localcloud --namespace relay-cloud | sed -n '1s/.*"apiKey": "\([^"]*\)".*/\1/p')
kubectl create namespace demo --dry-run=client --output yaml | kubectl apply --filename -
kubectl create secret generic relay-api-key --namespace demo --from-literal=api-key="$KEY" --dry-run=client --output yaml |
  kubectl apply --filename -
kubectl apply --namespace demo --filename examples
kubectl wait --namespace demo --timeout=120s --for=condition=Ready cacct/default gpod/trainer gcl/llm gpuvm/box sshkey/ada apikey/ci ibsched/nightly
kubectl wait --namespace demo --timeout=120s --for=condition=Complete inferencebatch/capitals
cat <<'TRY'

Everything in examples/ is Ready or Complete, in the namespace demo. To try:

  kubectl -n demo get gpurelay
  kubectl -n demo patch gpod trainer --type=merge -p '{"spec":{"powerState":"Stopped"}}'
  kubectl -n demo scale gcl/llm --replicas=4
  kubectl -n demo get configmap answers -o jsonpath='{.data.output\.jsonl}' | head -3
  kubectl -n relay-system delete pod -l gpurelay.dev/leader=true        # the other replica takes over

The cloud's console: http://127.0.0.1:8400/, with any name and this password, while the second command runs:

  kubectl -n relay-cloud get secret relay-localcloud-admin -o jsonpath='{.data.token}' | base64 -d
  kubectl -n relay-cloud port-forward deployment/relay-localcloud 8400
TRY
