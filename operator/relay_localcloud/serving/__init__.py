"""Serving deployments: engines on GPUs that answer for a model of the catalog (section 2, "Serving deployment")."""
