"""The Kubernetes API, for whoever calls it."""
