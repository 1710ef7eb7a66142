#!/usr/bin/env bash
# up.sh: a kind cluster named `relay` with the two images of this source in it, by Docker or podman. What is there is used again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
CONTAINERS=$(command -v docker || command -v podman) || { echo "Docker or podman is needed" >&2; exit 1; }
for program in kind helm kubectl; do
  command -v "$program" > /dev/null || { echo "$program is needed: it is not on PATH" >&2; exit 1; }
done
[ "${CONTAINERS##*/}" = docker ] || export KIND_EXPERIMENTAL_PROVIDER=podman
kind get clusters 2> /dev/null | grep -qx relay || kind create cluster --name relay --wait 120s
ARCHIVE=$(mktemp); trap 'rm -f "$ARCHIVE"' EXIT
for target in operator localcloud; do
  image=docker.io/library/relay-$target:0.1.0  # as Kubernetes reads relay-$target:0.1.0
  "$CONTAINERS" build --target "$target" --tag "$image" .
  "$CONTAINERS" save --output "$ARCHIVE" "$image"
  kind load image-archive "$ARCHIVE" --name relay
done
kubectl config use-context kind-relay
