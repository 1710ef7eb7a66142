#!/usr/bin/env bash
# journeys.sh [OPTIONS]: tests/node on the cluster of `make kind`, or on that of RELAY_TEST_KUBECONFIG. The options are pytest's.
# What needs parts of the project's own node is skipped, and so is, unless it is root's, what kills the processes of Pods.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
if [ -z "${RELAY_TEST_KUBECONFIG:-}" ]; then
  RELAY_TEST_KUBECONFIG=$(mktemp); trap 'rm -f "$RELAY_TEST_KUBECONFIG"' EXIT
  kubectl config view --raw --minify --context kind-relay > "$RELAY_TEST_KUBECONFIG"
fi
export RELAY_TEST_KUBECONFIG
make .venv/.installed
.venv/bin/pytest --progress --durations=10 tests/node "$@"
