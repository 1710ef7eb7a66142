"""Long work: reads, checks and uploads the records of a round. All of it is free of charge."""

import hashlib
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from dataclasses import InitVar, dataclass, field

from relay_client import Cloud, NotFound, Unreadable
from relay_client.operations import UPLOAD_FILE
from relay_operator.api.conditions import Reason
from relay_operator.api.inferencebatch import MAX_PARTS, InferenceBatch, PartStatus
from relay_operator.api.inferencebatch_spec import BatchSpec, ToolType
from relay_operator.api.meta import CreateIntent
from relay_operator.flows.batch.destinations import Destinations
from relay_operator.flows.batch.files import LostFiles, TooFewError, delete, digest_of, files_of, ours
from relay_operator.flows.batch.kept_parts import changed, is_as_sent, uploaded
from relay_operator.flows.batch.names import file_name
from relay_operator.flows.batch.result import Published, StoppedError, Uploaded, WorkRefused, frequent, shown
from relay_operator.flows.batch.selection import select
from relay_operator.flows.batch.sources import Sources
from relay_operator.records.check import Expected, tool_config_of
from relay_operator.records.ids import Ids
from relay_operator.records.intake import Findings, Intake, RecordsRefused
from relay_operator.records.lines import LONGEST_LINE
from relay_operator.records.pace import Pace
from relay_operator.records.split import Part, PartMade, Splitter, input_digest
from relay_wire.batches import ToolConfig
from relay_wire.files import FileObject


@dataclass(slots=True)
class _Source:
    """The input's bytes, which computes their digest while they are read."""

    chunks: AsyncIterable[bytes]
    sha256: "hashlib._Hash" = field(default_factory=hashlib.sha256)
    last: bytes = b""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self.chunks:
            self.sha256.update(chunk)
            self.last = chunk[-1:] or self.last
            yield chunk

    def is_sent_as(self, made: PartMade) -> bool:
        """Whether the only part equals the input, apart from the end of its last line."""
        whole = self.sha256.copy()
        if self.last != b"\n":
            whole.update(b"\n")
        return whole.hexdigest() == made.sha256


@dataclass(slots=True)
class _Found:
    """The operator's files that the cloud has already, by name, from an earlier attempt."""

    cloud: Cloud
    files: InitVar[Iterable[FileObject]]
    by_name: dict[str, FileObject] = field(init=False)

    def __post_init__(self, files: Iterable[FileObject]) -> None:
        self.by_name = {file.filename or "": file for file in files}

    async def same(self, name: str, made: PartMade) -> str | None:
        """The id of the file with this name if it is exactly this part; else None, and the part is uploaded again."""
        file = self.by_name.pop(name, None)
        if file is None or file.bytes not in (None, made.bytes):
            return None
        return file.id if await digest_of(self.cloud, file.id) == made.sha256 else None


class _OtherContentError(Exception):
    """A file with this name has other content, so the stream must be read once more."""


@dataclass(slots=True)
class Sending:
    """Sends the rounds of batches."""

    sources: Sources
    destinations: Destinations
    lost_files: LostFiles
    pace: Pace
    part_bytes: int
    """The most bytes of one file."""

    async def first(
        self, obj: InferenceBatch, cloud: Cloud, intent: CreateIntent, *, search: bool
    ) -> Uploaded | Published | WorkRefused:
        """Upload all records; with `search`, some may be in the cloud already, or all be answered and published.

        Claims the output for this batch. Raises StoppedError, CloudError, KubeError, NoTemporarySpace.
        """
        before = await self.destinations.published(obj, intent.token) if search else None
        if before is not None:
            return before
        await self.destinations.check(obj, intent.token)
        sent = await self._all(obj, cloud, intent, search=search)
        if isinstance(sent, Uploaded):
            await self.destinations.claim(obj, intent.token)
        return sent

    async def _all(
        self, obj: InferenceBatch, cloud: Cloud, intent: CreateIntent, *, search: bool
    ) -> Uploaded | WorkRefused:
        expected = await self._expected(obj)
        if obj.spec.input.file_id is not None and expected.tool_config is None and not uploaded(obj):
            as_it_is = await self._given(obj, cloud, expected, obj.spec.input.file_id)
            if as_it_is is not None:
                return as_it_is
        found = _Found(cloud, await ours(cloud, intent) if search else [])
        while True:
            try:
                return await self._read(obj, cloud, intent, expected, found)
            except _OtherContentError:
                continue  # all found files are forgotten, so the loop ends

    async def again(
        self, obj: InferenceBatch, cloud: Cloud, intent: CreateIntent, *, search: bool
    ) -> Uploaded | Published:
        """Upload again, from the files sent, the earlier records that failed retryably or have no answer.

        With `search`, as in `first`. Raises StoppedError, CloudError, KubeError, NoTemporarySpace.
        """
        before = await self.destinations.published(obj, intent.token) if search else None
        if before is not None:
            return before
        found, doubted = _Found(cloud, await ours(cloud, intent) if search else []), False
        while True:
            try:
                with Ids() as ids:
                    chosen = await select(obj, cloud, ids, self.pace, doubted=doubted)
                    splitter = Splitter(chosen.records, self.part_bytes)
                    parts = await self._upload(obj, cloud, intent, splitter, found)
            except _OtherContentError:
                continue
            except TooFewError as few:
                if doubted:
                    raise StoppedError(WorkRefused(Reason.RESULTS_LOST, str(few))) from None
                await self.lost_files.wait()
                found, doubted = _Found(cloud, await ours(cloud, intent)), True
                continue
            except NotFound as gone:
                read = files_of(part for part in obj.status.parts or () if part.round == (obj.status.round or 1) - 1)
                if not await self.lost_files.lacking(gone, cloud, read):
                    raise
                text = f"records cannot be sent again, since the cloud has lost a file: {gone.message}"
                raise StoppedError(WorkRefused(Reason.RESULTS_LOST, text)) from None
            records, reasons = sum(part.records for part in parts), frequent(chosen.reasons)
            return Uploaded(parts, records, retried=chosen.retried, reasons=reasons)

    async def _expected(self, obj: InferenceBatch) -> Expected:
        config = await self._tool_config(obj.spec, obj.metadata.namespace)
        wire = None if config is None else tool_config_of(config)
        return Expected(obj.spec.endpoint, obj.spec.model, wire, min(LONGEST_LINE, self.part_bytes - 1))

    async def _tool_config(self, spec: BatchSpec, namespace: str) -> ToolConfig | None:
        config = spec.tool_config
        if config is None:
            return None
        ref, authorization = config.authorization_secret_ref, None
        if ref is not None:
            authorization = await self.sources.text(namespace, ref.name, ref.key)
        return ToolConfig(
            url=config.url,
            type="mcp" if config.type is ToolType.MCP else "http",
            authorization=authorization,
            context=config.context,
            max_rounds=config.max_rounds,
            timeout_ms=config.timeout_ms,
        )

    async def _given(
        self, obj: InferenceBatch, cloud: Cloud, expected: Expected, file_id: str
    ) -> Uploaded | WorkRefused | None:
        """The given file as the only part; None if its records must be completed in a file of the operator's own."""
        with Ids() as ids:
            async with self.sources.open(obj, cloud) as chunks:
                source = _Source(chunks)
                intake = Intake(source, expected, ids, self.pace)
                splitter = Splitter(intake.records(), self.part_bytes)
                try:
                    async for _ in splitter.parts():
                        pass
                except RecordsRefused:
                    return _refused(await intake.rest())
        records = sum(made.records for made in splitter.made)
        self.destinations.check_size(obj, records)
        if len(splitter.made) != 1 or not source.is_sent_as(splitter.made[0]):
            return None
        part = _part(1, splitter.made[0], file_id)
        return Uploaded((part,), records, input_digest(splitter.made))

    async def _read(
        self, obj: InferenceBatch, cloud: Cloud, intent: CreateIntent, expected: Expected, found: _Found
    ) -> Uploaded | WorkRefused:
        with Ids() as ids:
            async with self.sources.open(obj, cloud) as chunks:
                intake = Intake(chunks, expected, ids, self.pace)
                splitter = Splitter(intake.records(), self.part_bytes)
                try:
                    parts = await self._upload(obj, cloud, intent, splitter, found)
                except RecordsRefused:
                    return _refused(await intake.rest())
        records = sum(part.records for part in parts)
        self.destinations.check_size(obj, records)
        return Uploaded(parts, records, input_digest(splitter.made))

    async def _upload(
        self, obj: InferenceBatch, cloud: Cloud, intent: CreateIntent, splitter: Splitter, found: _Found
    ) -> tuple[PartStatus, ...]:
        number, known = obj.status.round or 1, uploaded(obj)
        earlier = sum(part.round != number for part in obj.status.parts or ())
        ids: dict[int, str] = {}
        async for part in splitter.parts():
            if earlier + part.number > MAX_PARTS:
                if number > 1 and not known:
                    await delete(cloud, ids.values())
                    return ()  # what is answered is paid for, and must not end as invalid
                text = f"it would take more than {MAX_PARTS} batches in the cloud: divide the input"
                raise StoppedError(WorkRefused(Reason.INPUT_INVALID, text))
            recorded = known.get(part.number)
            if recorded is not None and not await is_as_sent(recorded, await part.finish(), cloud):
                raise changed(part.number)
            ids[part.number] = (
                recorded.input_file_id or ""
                if recorded is not None
                else await self._file(cloud, file_name(intent, number, part.number), part, found)
            )
        if missing := known.keys() - ids.keys():
            raise changed(min(missing))
        made = {each.number: each for each in splitter.made}
        return tuple(
            known.get(number_of_part) or _part(number, made[number_of_part], file_id)
            for number_of_part, file_id in ids.items()
        )

    async def _file(self, cloud: Cloud, name: str, part: Part, found: _Found) -> str:
        if name not in found.by_name:
            return _stored(await cloud.upload(name, part.pieces()), name, await part.finish())
        file_id = await found.same(name, await part.finish())
        if file_id is None:
            found.by_name.clear()  # the parts behind it are others, too, and each of them would cost one more reading
            raise _OtherContentError(name)
        return file_id


def _stored(file: FileObject, name: str, made: PartMade) -> str:
    """The id of the uploaded file. Raises Unreadable if the answer is about another file."""
    if file.filename not in (None, name) or file.bytes not in (None, made.bytes):
        told = f"{file.filename!r} of {file.bytes} bytes, and {name!r} of {made.bytes} bytes was sent"
        raise Unreadable(UPLOAD_FILE.name, f"the answer is about {told}")
    return file.id


def _part(number: int, made: PartMade, file_id: str) -> PartStatus:
    return PartStatus(
        round=number,
        part=made.number,
        records=made.records,
        size=made.bytes,
        digest=made.sha256,
        input_file_id=file_id,
    )


def _refused(findings: Findings) -> WorkRefused:
    problems = findings.problems
    return WorkRefused(Reason.INPUT_INVALID, f"{problems.told}; nothing was sent", shown(problems))
