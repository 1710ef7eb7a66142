"""Opens the Kubernetes runtime: the credentials for its clusters, and the id that marks this cloud's objects."""

from base64 import urlsafe_b64decode
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Final

from pydantic_core import from_json

from relay_kube import access
from relay_kube.access import SERVICE_ACCOUNT, AccessError, Login
from relay_kube.errors import KubeError, NotFound, Unavailable
from relay_kube.kube import Kube, ResourceType
from relay_localcloud.capacity import catalog
from relay_localcloud.kernel.store import Store
from relay_localcloud.kernel.vault import Vault
from relay_localcloud.runtimes.kubernetes import config, fleet, holdings, turns
from relay_localcloud.runtimes.kubernetes.config import ClusterConfig, RuntimeConfig
from relay_localcloud.runtimes.kubernetes.endpoints import Outside
from relay_localcloud.runtimes.kubernetes.reconcile import Reconciler
from relay_localcloud.runtimes.kubernetes.regions import Region, Regions
from relay_localcloud.runtimes.kubernetes.tenants import Account, Gateway
from relay_localcloud.runtimes.kubernetes.turns import Offer
from relay_localcloud.runtimes.kubernetes.wanted import Terms
from relay_localcloud.runtimes.runtime import Proxied, Unusable

AGENT: Final = "relay-localcloud"
OWN_LABELS: Final = {"app.kubernetes.io/name": AGENT}
"""The labels of the cloud's own Pod if it runs in the cluster; network policies admit it to workloads by them."""
_SLICES: Final = ResourceType("endpointslices", "discovery.k8s.io")


def read(arguments: config.Arguments) -> RuntimeConfig:
    """The configuration of the command line, after putting its models, sizes and images on sale. Raises Unusable."""
    said = config.read(*arguments)
    catalog.sell(config.models(said), config.sizes(said), said.vm_images)
    return said


@asynccontextmanager
async def opened(store: Store, said: RuntimeConfig, vault: Vault) -> AsyncIterator[Regions]:
    """Yields the runtime; it does nothing until `run` is called.

    Raises Unusable if a cluster does not accept its credentials, or none can be reached: others may join later.
    """
    first, *others = said.clusters
    with store.transaction(at=0) as tx:
        instance = holdings.instance_of(tx)
        fleet.name_cordons(tx)
        fleet.name_cluster(tx, first.name)
        holdings.name_cluster(tx, first.name)
    regions = Regions(store, turns.lacking(_terms(said, first, instance)))
    away = list[str]()
    async with AsyncExitStack() as stack:
        for cluster in said.clusters:
            try:
                login = access.login(cluster.kubeconfig)
                kube = Kube(await stack.enter_async_context(access.opened(login, AGENT)), field_manager=AGENT)
                gateway = partial(_gateway, kube, cluster)
                await gateway()
            except Unavailable as error:
                away.append(f"the cluster {cluster.name} cannot be asked: {error}")
            except (AccessError, KubeError) as error:
                raise Unusable(f"the cluster {cluster.name}: {error}") from None
            offer, table = _offer(said, cluster, instance, vault, login), config.table(said, cluster)
            outside = None if cluster.kubeconfig is None else Outside(login.server, Proxied(login.headers, login.tls))
            reconciler = Reconciler(store, kube, offer, gateway, table, regions, is_region=bool(others))
            regions.join(cluster.name, Region(kube, reconciler, outside))
        if len(away) == len(said.clusters):
            raise Unusable("; ".join(away))
        yield regions


def _offer(said: RuntimeConfig, cluster: ClusterConfig, instance: str, vault: Vault, login: Login) -> Offer:
    """What holds on a cluster, until its API server says where requests to its Pods come from."""
    resources = [row.resource for row in config.table(said, cluster)]
    account = account_of(login.headers()) if cluster.kubeconfig is None else None
    first, *_ = said.clusters
    return Offer(_terms(said, cluster, instance), Gateway(), resources, vault, account, cluster.name, first.name)


def _terms(said: RuntimeConfig, cluster: ClusterConfig, instance: str) -> Terms:
    of_cluster = cluster.storage_class, cluster.node_selector
    return Terms(instance, *of_cluster, said.privileged_allowed, cluster.image_pull_policy)


def account_of(headers: Mapping[str, str]) -> Account | None:
    """The ServiceAccount of a bearer token; None if it belongs to none. Only the API server verifies the token."""
    claims = headers.get("Authorization", "").removeprefix("Bearer ").split(".")[1:2]
    try:
        subject = from_json(urlsafe_b64decode(claims[0] + "=="))["sub"].split(":")
    except (AttributeError, LookupError, TypeError, ValueError):
        return None
    return Account(*subject[2:]) if subject[:2] == ["system", "serviceaccount"] and len(subject) == 4 else None


async def _gateway(kube: Kube, cluster: ClusterConfig) -> Gateway:
    """The source of requests to workloads: inside the cluster this Pod, from outside the API server as a proxy.

    Raises KubeError.
    """
    if cluster.kubeconfig is None:
        return Gateway((SERVICE_ACCOUNT / "namespace").read_text().strip(), OWN_LABELS)
    try:
        found = await kube.get(_SLICES, "default", "kubernetes")
    except NotFound:
        return Gateway()  # an API server without endpoints of its own: nothing inside the cluster calls it
    endpoints = found.get("endpoints")
    listed = (
        [each.get("addresses") for each in endpoints if isinstance(each, dict)] if isinstance(endpoints, list) else []
    )
    addresses = [str(address) for some in listed if isinstance(some, list) for address in some]
    return Gateway(networks=tuple(f"{address}/{128 if ':' in address else 32}" for address in addresses))
