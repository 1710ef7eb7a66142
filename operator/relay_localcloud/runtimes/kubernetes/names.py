"""What objects of Kubernetes are called, and the labels by which they are known again."""

from collections.abc import Mapping
from typing import Final

INSTANCE: Final = "gpurelay.dev/cloud-instance"
CLOUD_ID: Final = "gpurelay.dev/cloud-id"
REPLICA_ID: Final = "gpurelay.dev/replica-id"
CONTAINER: Final = "main"
"""The container of a Pod."""
START: Final = "gpurelay.dev/start"
"""The annotation of a Pod that says which start of its holder it is, from 1."""


def namespace_of(organization_id: str) -> str:
    """Where everything of an organization is."""
    return f"relay-org-{organization_id.partition('_')[2].lower()}"


def name_of(cloud_id: str) -> str:
    """An id as a name that Kubernetes takes."""
    return cloud_id.replace("_", "-").lower()


def pull_name_of(cloud_id: str) -> str:
    """What the kubelet logs in to a registry with, for one container."""
    return f"{name_of(cloud_id)}-pull"


def labels_of(instance: str, cloud_id: str, holder_id: str) -> Mapping[str, str]:
    """Of all that there is for one container, organization or credential.

    `holder_id` is another than `cloud_id` if that has replicas.
    """
    replica = {} if holder_id == cloud_id else {REPLICA_ID: holder_id}
    return {INSTANCE: instance, CLOUD_ID: cloud_id, **replica}
