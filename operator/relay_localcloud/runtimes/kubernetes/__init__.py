"""The runtime that runs containers on a Kubernetes cluster."""
