"""Long work: files of ours are deleted from the cloud; never one that was given."""

from relay_client import Cloud, NotFound
from relay_client.operations import DELETE_FILE
from relay_client.paging import files
from relay_operator.api.inferencebatch import InferenceBatch
from relay_operator.api.meta import CreateIntent
from relay_operator.flows.batch.names import file_prefix
from relay_operator.flows.batch.selection import results_of
from relay_operator.flows.batch.sending import LIST_LIMIT
from relay_operator.flows.batch.work import Cleared


async def clear(obj: InferenceBatch, cloud: Cloud, intent: CreateIntent, *, search: bool) -> Cleared:
    """By their ids; with `search` also uploads whose answer was lost, by their names. Raises CloudError."""
    prefix, doomed = file_prefix(intent), list[str]()
    if search:
        doomed = [file.id async for file in files(cloud, limit=LIST_LIMIT) if (file.filename or "").startswith(prefix)]
    recorded = [part.input_file_id for part in obj.status.parts or () if part.input_file_id]
    results = [file_id for part in obj.status.parts or () for file_id in results_of(part)]
    for file_id in dict.fromkeys([*doomed, *recorded, *results]):
        if file_id == obj.spec.input.file_id:
            continue
        try:
            await cloud.call(DELETE_FILE, id=file_id)
        except NotFound:
            continue
    return Cleared()
