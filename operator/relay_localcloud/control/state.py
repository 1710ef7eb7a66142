"""`/_localcloud/export`, `/import`: the whole state as one JSON file; `/reset`: a fresh state, and how it is filled."""

from pydantic import JsonValue
from starlette.requests import Request
from starlette.responses import Response

from relay_localcloud.batches import storage
from relay_localcloud.capacity import nodes
from relay_localcloud.capacity.offers import require_made_up
from relay_localcloud.cloud import Cloud, CurrentCloud
from relay_localcloud.control import exports
from relay_localcloud.http.bodies import Answer, answer, no_content
from relay_localcloud.http.errors import ApiError
from relay_localcloud.http.json_values import parsed
from relay_localcloud.http.routing import Router
from relay_localcloud.identity import organizations
from relay_localcloud.identity.organizations import Founded
from relay_localcloud.kernel.disk import StateFileError
from relay_localcloud.kernel.store import Tx
from relay_localcloud.models import backends
from relay_localcloud.ssh import host_keys

router = Router()

LARGEST_FILE = 512 * 1024 * 1024


def seed(cloud: Cloud, document: JsonValue, announced: Founded | None = None, *, clear: bool = False) -> Founded:
    """Fill a fresh state, from an exported one if given; returns the credentials of the seeded organization.

    `clear`: remove every row first. The credentials are taken from `announced`, if it is given. StateFileError if the
    document is not an exported state, Unwritable if the disk fails: then the state is as it was.
    """
    with cloud.files.importing() as imported, cloud.store.transaction(at=0) as tx:
        if clear:
            with host_keys.kept(tx, cloud.vault):
                exports.clear(tx)
        if document is not None and exports.is_fresh(tx):
            with host_keys.kept(tx, cloud.vault):
                exports.replace(tx, document)
            storage.restore(tx, cloud.files, document, imported)
        backends.seal_keys(tx, cloud.vault)
    with cloud.store.transaction(at=0) as tx:
        storage.sweep(tx, cloud.files)
    cloud.start_over()
    with cloud.store.transaction() as tx:
        founded, made = organizations.seed(tx, announced)
        if made and not tx.runtime.reports_by_itself:
            nodes.seed_nodes(tx)
    return founded


class Reset:
    """Resets a cloud to the state after its first start; the ready line's credentials stay valid."""

    def __init__(self, document: JsonValue, announced: Founded) -> None:
        self._document = document
        self._announced = announced

    async def __call__(self, cloud: Cloud) -> None:
        """Reset; every other request under way ends with 503."""
        # There is no await here, so nothing of the former state can write into the new one.
        seed(cloud, self._document, self._announced, clear=True)
        await cloud.under_way.others_ended()
        cloud.requests.forget()
        cloud.rate_limiter.forget()


@router.get("/export", summary="The whole state as one file")
def export_state(cloud: CurrentCloud, tx: Tx) -> Answer:
    """Answers every table. It contains secrets: signing keys of webhooks, environments of workloads, the seeded key."""
    cloud.clock.keep(tx)
    return {**exports.exported(tx), "files": cloud.files.exported()}


@router.post(
    "/import",
    summary="Replace the whole state",
    openapi_extra={"requestBody": {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}}},
)
async def import_state(request: Request, cloud: CurrentCloud) -> Response:
    """Takes what an export answered; clock, organizations, workloads and due work go on from there."""
    with cloud.store.transaction() as tx:
        require_made_up(tx, "Replacing the state")
    document = await _document(request)
    try:
        with cloud.files.importing() as imported, cloud.store.transaction() as tx:
            with host_keys.kept(tx, cloud.vault):
                counts = exports.replace(tx, document)
            storage.restore(tx, cloud.files, document, imported)
            backends.seal_keys(tx, cloud.vault)
    except StateFileError as error:
        raise ApiError(400, f"Nothing was imported: {error}.") from error
    with cloud.store.transaction(at=0) as tx:
        storage.sweep(tx, cloud.files)
    cloud.start_over()
    await cloud.under_way.others_ended()
    return answer({"rows": counts})


@router.post("/reset", status_code=204, summary="Bring the freshly seeded state back")
async def reset_state(cloud: CurrentCloud, request: Request) -> Response:
    """Answers 204; the ready line stays true, and requests under way, on every port, are answered 503."""
    with cloud.store.transaction() as tx:
        require_made_up(tx, "A reset")
    reset = request.app.parts[Reset]
    assert isinstance(reset, Reset)
    await reset(cloud)
    return no_content()


async def _document(request: Request) -> JsonValue:
    raw = bytearray()
    async for chunk in request.stream():
        raw += chunk
        if len(raw) > LARGEST_FILE:
            raise ApiError(413, f"The file is over {LARGEST_FILE} bytes.")
    try:
        return parsed(bytes(raw))
    except ValueError as error:
        raise ApiError(400, f"The body is not valid JSON: {error}.") from None
