#!/usr/bin/env bash
# up.sh [OPTIONS]: builds both images and loads them into the kind cluster `relay`, created if it does not exist; uses Docker or podman.
# The options are for `kind create cluster`: `--image` sets the node image, `--config` the cluster's configuration.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
for CONTAINERS in docker podman ""; do  # a client without a running engine does not count
  "$CONTAINERS" info > /dev/null 2>&1 && break
done
[ -n "$CONTAINERS" ] || { echo "Docker or podman is needed: neither answers" >&2; exit 1; }
for program in kind helm kubectl; do
  command -v "$program" > /dev/null || { echo "$program is needed: it is not on PATH" >&2; exit 1; }
done
[ "$CONTAINERS" = docker ] || export KIND_EXPERIMENTAL_PROVIDER=podman
kind get clusters 2> /dev/null | grep -qx relay || kind create cluster --name relay --wait 120s "$@"
ARCHIVES=$(mktemp -d); trap 'rm -rf "$ARCHIVES"' EXIT
for target in operator localcloud; do
  image=docker.io/library/relay-$target:0.1.0  # the full name that Kubernetes gives relay-$target:0.1.0
  "$CONTAINERS" build --target "$target" --tag "$image" .
  "$CONTAINERS" save --output "$ARCHIVES/$target.tar" "$image"
  kind load image-archive "$ARCHIVES/$target.tar" --name relay
done
kubectl config use-context kind-relay
