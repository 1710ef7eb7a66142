"""Access to the Kubernetes API, shared by the operator and the local cloud."""
