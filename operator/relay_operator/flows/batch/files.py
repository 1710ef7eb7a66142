"""The files of batches in the cloud: found by name, recorded in status, or lost."""

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from relay_client import Cloud, NoInferenceUrl, NotFound
from relay_client.list_room import ListTurn
from relay_client.operations import DELETE_FILE, DOWNLOAD_FILE, GET_FILE, LIST_FILES, Operation
from relay_client.paging import files, gathered
from relay_operator.api.conditions import Reason
from relay_operator.api.inferencebatch import InferenceBatch, InferenceBatchStatus, PartStatus
from relay_operator.api.meta import CreateIntent
from relay_operator.flows.batch.absence import must_have_access, unless_absent
from relay_operator.flows.batch.names import file_prefix
from relay_operator.flows.batch.predicates import unread
from relay_operator.flows.batch.result import Cleared
from relay_operator.flows.batch.throughput import count_call, counted
from relay_operator.records.results import Open
from relay_wire.files import FileObject

ResultT = TypeVar("ResultT")
_Look: TypeAlias = Callable[[Cloud, str], Awaitable[bool]]

LIST_LIMIT = 200
FILE_LOST = "file_lost"
"""The code of a problem with a file that counts as lost."""


class TooFewError(Exception):
    """The cloud counts more results than its files have; the message tells both numbers."""


async def ours(cloud: Cloud, intent: CreateIntent) -> list[FileObject]:
    """The files uploaded for an object, with duplicates from uploads whose answer was lost. Raises CloudError."""
    prefix = file_prefix(intent)

    def mine(turn: ListTurn) -> AsyncIterator[FileObject]:
        listed = files(cloud, turn, limit=LIST_LIMIT)
        return (file async for file in listed if (file.filename or "").startswith(prefix))

    return await gathered(cloud, LIST_FILES, mine)


async def clear(obj: InferenceBatch, cloud: Cloud, intent: CreateIntent, *, search: bool) -> Cleared:
    """Long work: delete the operator's files from the cloud, but never a file that people gave, or unpublished results.

    Deletes by id; with `search` also, by name, uploads whose answer was lost. Raises CloudError.
    """
    recorded = list(files_of(obj.status.parts or ()))
    kept = {obj.spec.input.file_id, *_unpublished(obj.status)}
    try:
        found = [file.id for file in await ours(cloud, intent)] if search else []
    except NoInferenceUrl:
        if recorded:
            raise
        return Cleared()  # no upload was ever sent
    await delete(cloud, (file_id for file_id in dict.fromkeys([*found, *recorded]) if file_id not in kept))
    return Cleared()


async def clear_results(obj: InferenceBatch, cloud: Cloud) -> Cleared:
    """As `clear`, but only the files with results: what was sent is the object's, which lives on. Raises CloudError."""
    await delete(cloud, (file_id for part in obj.status.parts or () for file_id in results_of(part)))
    return Cleared()


async def delete(cloud: Cloud, ids: Iterable[str]) -> None:
    """Delete files from the cloud; the absence of one is success. Raises CloudError."""
    for file_id in ids:
        await _called(cloud, DELETE_FILE, file_id)


def _unpublished(status: InferenceBatchStatus) -> Iterator[str]:
    """The files with results if some of their lines could not be published, or some results count as lost.

    The cloud may have the lost ones again, and whoever fetches these needs the others beside them.
    """
    problems = status.problems or ()
    short = status.ending is not None and status.ending.reason == Reason.RESULTS_LOST
    lost = short or any(problem.code == FILE_LOST for problem in problems)
    if status.output is not None and (lost or unread(problems)):
        yield from (file_id for part in status.parts or () for file_id in results_of(part))


def opened(cloud: Cloud, file_id: str) -> Open:
    """A reader of a cloud file; each call reads from the beginning."""

    async def pieces() -> AsyncIterator[bytes]:
        async with cloud.download(file_id) as download:
            async for piece in counted(download):
                yield piece

    return pieces


async def digest_of(cloud: Cloud, file_id: str) -> str | None:
    """The SHA-256 of a cloud file; None if the cloud does not have its content. Raises CloudError."""
    digest = hashlib.sha256()
    try:
        async for piece in opened(cloud, file_id)():
            digest.update(piece)
    except NotFound:
        await must_have_access(cloud)
        return None
    return digest.hexdigest()


def results_of(part: PartStatus) -> tuple[str, ...]:
    """The files that the cloud wrote for a part."""
    return tuple(file_id for file_id in (part.output_file_id, part.error_file_id) if file_id)


def files_of(parts: Iterable[PartStatus]) -> Iterator[str]:
    """The files sent for the parts, and the files that the cloud wrote."""
    for part in parts:
        yield from results_of(part)
        if part.input_file_id:
            yield part.input_file_id


@dataclass(frozen=True, slots=True)
class LostFiles:
    """Believes that results are lost only if they are missing twice. Lost files are neither published nor deleted."""

    seconds: float
    """Seconds between the first time and the second."""
    sleep: Callable[[float], Awaitable[None]]

    async def wait(self) -> None:
        """Wait until what was told once may be asked again."""
        await self.sleep(self.seconds)

    async def missing(self, cloud: Cloud, ids: Iterable[str]) -> frozenset[str]:
        """The files that the cloud does not have. Raises CloudError."""
        return await self._twice_without(_is_there, cloud, ids)

    async def lacking(self, absent: NotFound, cloud: Cloud, ids: Iterable[str]) -> frozenset[str]:
        """The files whose content the cloud does not have, though it may list them; none if this 404 is not about one.

        Raises CloudError.
        """
        if absent.operation != DOWNLOAD_FILE.name:
            return frozenset()
        return await self._twice_without(_has_content, cloud, ids)

    async def _twice_without(self, look: _Look, cloud: Cloud, ids: Iterable[str]) -> frozenset[str]:
        lacking = [file_id for file_id in ids if not await look(cloud, file_id)]
        if lacking:
            await self.wait()
            lacking = [file_id for file_id in lacking if not await look(cloud, file_id)]
        return frozenset(lacking)


async def _is_there(cloud: Cloud, file_id: str) -> bool:
    return await _called(cloud, GET_FILE, file_id) is not None


async def _has_content(cloud: Cloud, file_id: str) -> bool:
    count_call()
    try:
        async with cloud.download(file_id):
            return True
    except NotFound:
        await must_have_access(cloud)
        return False


async def _called(cloud: Cloud, operation: Operation[None, ResultT], file_id: str) -> ResultT | None:
    result = await unless_absent(cloud, operation, file_id)
    count_call()
    return result
