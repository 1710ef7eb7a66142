"""Creates pods, VMs, clusters and SSH keys from forms of the console, by the same rules as the API."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from relay_localcloud.capacity.offers import require_offered
from relay_localcloud.cloud import Cloud
from relay_localcloud.clusters import admission as cluster_admission
from relay_localcloud.console.fields import Fields
from relay_localcloud.http.errors import ApiError
from relay_localcloud.identity import organizations
from relay_localcloud.kernel.store import Tx
from relay_localcloud.runtimes.runtime import Noun
from relay_localcloud.workloads import pod_routes, ssh_keys, vm_routes
from relay_wire.clusters import ClusterCreate
from relay_wire.pods import PodCreate
from relay_wire.ssh_keys import SshKeyCreate
from relay_wire.vms import VmCreate

_Body = Mapping[str, object]


@dataclass(frozen=True)
class Creation:
    """The fields of a form, by their names in the body of the API's request, and what creates the object.

    A field that is left empty is left out of the body, so the API's default holds.
    """

    make: Callable[[Tx, Cloud, str, _Body], str]
    """Creates the object for an organization from the body; returns its id."""
    texts: tuple[str, ...]
    numbers: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()
    """Lists in the body, of which a form has one entry."""
    ticks: tuple[str, ...] = ()

    def body(self, form: Fields) -> _Body:
        """The body for a form; ApiError 400 for a field that is not a number."""
        given = {name for name in (*self.texts, *self.numbers, *self.lists) if form.text(name)}
        return {
            **{name: form.text(name) for name in self.texts if name in given},
            **{name: form.whole_number(name) for name in self.numbers if name in given},
            **{name: [form.text(name)] for name in self.lists if name in given},
            **{name: form.has(name) for name in self.ticks},
        }


def create(cloud: Cloud, noun: str, organization_id: str, form: Fields) -> str:
    """Create an object from the form of a noun (`CREATIONS`); returns its id. Errors are those of the API."""
    creation = CREATIONS[noun]
    body = creation.body(form)
    with cloud.store.transaction() as tx:
        organizations.organization(tx, organization_id)
        return creation.make(tx, cloud, organization_id, body)


def remove_key(tx: Tx, key_id: str) -> None:
    """Remove an SSH key of any organization; ApiError 404 if there is none."""
    key = ssh_keys.KEYS.find(tx, id=key_id)
    if key is None:
        raise ApiError(404, f"There is no SSH key {key_id!r}: it was deleted, or never existed.")
    ssh_keys.remove_key(tx, key.organization_id, key.id)


def _pod(tx: Tx, _: Cloud, organization_id: str, body: _Body) -> str:
    return pod_routes.make_pod(tx, organization_id, PodCreate.model_validate(body)).id


def _vm(tx: Tx, cloud: Cloud, organization_id: str, body: _Body) -> str:
    return vm_routes.make_vm(tx, cloud.vault, organization_id, VmCreate.model_validate(body)).id


def _cluster(tx: Tx, cloud: Cloud, organization_id: str, body: _Body) -> str:
    require_offered(tx, Noun.CLUSTER)
    wanted = ClusterCreate.model_validate(body)
    return cluster_admission.create(tx, cloud.vault, organization_id, wanted, price_factor=1.0).id


def _ssh_key(tx: Tx, _: Cloud, organization_id: str, body: _Body) -> str:
    return ssh_keys.add_key(tx, organization_id, SshKeyCreate.model_validate(body)).id


CREATIONS: Final[Mapping[str, Creation]] = {
    "pods": Creation(_pod, ("image", "name", "gpuModelId"), ("gpuCount", "httpPort", "volumeGb"), ticks=("public",)),
    "vms": Creation(
        _vm,
        ("name", "gpuModelId", "resourceSize", "templateId"),
        ("gpuCount", "diskSizeGb"),
        lists=("sshKeyIds",),
        ticks=("public",),
    ),
    "clusters": Creation(
        _cluster,
        ("name", "imageUrl", "gpuModelId", "resourceSize"),
        ("replicaCount", "gpusPerReplica", "containerPort"),
    ),
    "keys": Creation(_ssh_key, ("name", "publicKey")),
}
"""The creations by the last part of their forms' addresses."""
