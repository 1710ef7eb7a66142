"""What is generated from the models: CRDs, the chart's CRDs, RBAC rules, health checks, reference pages. Pure."""

import yaml

from relay_operator.crds.definitions import DEFINITIONS, custom_resource_definition

__all__ = ["DEFINITIONS", "crds_as_yaml", "custom_resource_definition"]


def crds_as_yaml() -> str:
    """All CRDs as one YAML stream, for `relay-operator crds | kubectl apply -f -`."""
    return yaml.safe_dump_all(
        [custom_resource_definition(definition) for definition in DEFINITIONS],
        sort_keys=False,
        width=120,
        explicit_start=True,
    )
