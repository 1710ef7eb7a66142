#!/usr/bin/env bash
# journeys.sh [OPTIONS]: runs tests/node on the cluster of `make kind` or of RELAY_TEST_KUBECONFIG. The options are pytest's.
# Tests that need the project's own node are skipped; so are, without root, tests that kill processes of Pods.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
if [ -z "${RELAY_TEST_KUBECONFIG:-}" ]; then
  RELAY_TEST_KUBECONFIG=$(mktemp); trap 'rm -f "$RELAY_TEST_KUBECONFIG"' EXIT
  kubectl config view --raw --minify --context kind-relay > "$RELAY_TEST_KUBECONFIG"
fi
export RELAY_TEST_KUBECONFIG
make .venv/.installed
.venv/bin/pytest --progress --durations=10 tests/node "$@"
