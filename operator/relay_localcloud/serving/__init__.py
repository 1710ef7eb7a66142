"""Serving deployments: engines on GPUs that serve a model of the catalog (section 2, "Serving deployment")."""
