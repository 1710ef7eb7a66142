"""Keeps the objects of all organizations up to date: namespaces, role bindings, quotas and network policies."""

import logging

from relay_kube.errors import KubeError
from relay_localcloud.kernel.store import Store
from relay_localcloud.runtimes.kubernetes import holdings, turns
from relay_localcloud.runtimes.kubernetes.names import namespace_of
from relay_localcloud.runtimes.kubernetes.objects import Objects
from relay_localcloud.runtimes.kubernetes.tenants import Gateway
from relay_localcloud.runtimes.kubernetes.turns import Offer

_log = logging.getLogger(__name__)


class Organizations:
    """The organizations that have something on a cluster; the rest get their objects with their first container."""

    def __init__(self, store: Store, objects: Objects) -> None:
        self._store = store
        self._objects = objects
        self._sent_for: Gateway | None = None
        self._due: set[str] = set()

    async def look(self, offer: Offer) -> None:
        """Send the objects of all at the first look, and again if the gateway has moved; what failed is sent again."""
        if offer.gateway != self._sent_for:
            with self._store.transaction() as tx:
                self._due = holdings.organizations(tx, offer.cluster)
            self._sent_for = offer.gateway
        for organization_id in sorted(self._due):
            with self._store.transaction() as tx:
                tenant = turns.tenant(tx, organization_id, offer)
            try:
                await self._objects.ensure_tenant(namespace_of(organization_id), tenant)
            except KubeError as error:
                _log.info("%s: %s; it is tried again", organization_id, error)
            else:
                self._due.discard(organization_id)
