"""The names of the Kubernetes objects, and the labels that identify them."""

from collections.abc import Mapping
from typing import Final

ALONE: Final = "cluster"
"""The name of a cloud's only cluster if its configuration names none."""
INSTANCE: Final = "gpurelay.dev/cloud-instance"
CLOUD_ID: Final = "gpurelay.dev/cloud-id"
REPLICA_ID: Final = "gpurelay.dev/replica-id"
CONTAINER: Final = "main"
"""The name of the cloud's container in a Pod."""
CORDONED_BY: Final = "gpurelay.dev/cordoned-by"
"""The annotation of a Node that a cloud cordoned, with the id of the cloud's instance."""
CORDON: Final = "node.kubernetes.io/unschedulable"
"""The taint of a cordoned Node. A hold affects nothing that is on the node, so its Pods may be created again there."""
START: Final = "gpurelay.dev/start"
"""The annotation with the number of the holder's start that a Pod belongs to, from 1."""

_NAMESPACE: Final = "relay-org-"


def namespace_of(organization_id: str) -> str:
    """The namespace of an organization's objects."""
    return f"{_NAMESPACE}{organization_id.partition('_')[2].lower()}"


def organization_of(namespace: str) -> str | None:
    """An id of which this is the namespace; None if it is not the namespace of an organization."""
    return f"org_{namespace.removeprefix(_NAMESPACE)}" if namespace.startswith(_NAMESPACE) else None


def name_of(cloud_id: str) -> str:
    """An id as a valid Kubernetes name."""
    return cloud_id.replace("_", "-").lower()


def is_vm(name: str) -> bool:
    """Whether objects of this name are a VM's."""
    return name.startswith("vm-")


def pull_name_of(cloud_id: str) -> str:
    """The name of the Secret with which the kubelet pulls the image of one container."""
    return f"{name_of(cloud_id)}-pull"


def labels_of(instance: str, cloud_id: str, holder_id: str) -> Mapping[str, str]:
    """The labels of every object of one container, organization or credential.

    `holder_id` differs from `cloud_id` for a replica, whose `cloud_id` is its cluster or deployment.
    """
    replica = {} if holder_id == cloud_id else {REPLICA_ID: holder_id}
    return {INSTANCE: instance, CLOUD_ID: cloud_id, **replica}
