"""What a fresh state begins with: an exported state where given, else one organization and the platform's nodes."""

from pydantic import JsonValue

from relay_localcloud.batches import storage
from relay_localcloud.capacity import nodes
from relay_localcloud.cloud import Cloud
from relay_localcloud.control import exports
from relay_localcloud.identity import organizations
from relay_localcloud.identity.organizations import Founded
from relay_localcloud.models import backends


def seed(cloud: Cloud, document: JsonValue, announced: Founded | None = None) -> Founded:
    """Fill a fresh state, from an exported one where given; the credentials of the seeded organization.

    They are those that were announced, where some were. StateFileError where the document is no exported state.
    """
    with cloud.store.transaction(at=0) as tx:
        if document is not None and exports.is_fresh(tx):
            exports.replace(tx, document)
            storage.restore(tx, cloud.files, document)
        backends.seal_keys(tx, cloud.vault)
        storage.sweep(tx, cloud.files)
    cloud.begin_anew()
    with cloud.store.transaction() as tx:
        founded, made = organizations.seed(tx, announced)
        if made:
            nodes.seed_nodes(tx)
    return founded


class Reset:
    """Brings a cloud back to what its start made of an empty state; what the ready line announced stays true."""

    def __init__(self, document: JsonValue, announced: Founded) -> None:
        self._document = document
        self._announced = announced

    async def __call__(self, cloud: Cloud) -> None:
        """Every other request under way ends with 503."""
        # Nothing is awaited here, so nothing of the former state can write into the fresh one.
        with cloud.store.transaction(at=0) as tx:
            exports.clear(tx)
        seed(cloud, self._document, self._announced)
        await cloud.under_way.others_ended()
        cloud.requests.forget()
        cloud.rate_limiter.forget()
