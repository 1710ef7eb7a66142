"""The runtime that makes containers on a Kubernetes cluster."""
