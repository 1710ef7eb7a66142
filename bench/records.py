"""The operator's cost per record of a batch: CPU, memory, and how long other tasks of the event loop wait.

`python -m bench.records SHAPE` measures one shape in its own process and prints the figures as JSON; `record_rows`
does that for every shape. Files on disk replace the bucket and the cloud; nothing else of the operator runs.
"""

import asyncio
import json
import os
import random
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic_core import to_json

from bench.results import Row
from bench.usage import Meter
from relay_operator.records.check import Expected
from relay_operator.records.ids import Ids
from relay_operator.records.intake import Intake
from relay_operator.records.merge import Merge, PartFiles
from relay_operator.records.pace import Pace
from relay_operator.records.results import Open
from relay_operator.records.split import Splitter

CHUNK_BYTES = 64 * 1024
EXPECTED = Expected("/v1/chat/completions", "echo")
FAILED_ONE_IN = 50


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of an input: the number of records and the characters of each prompt."""

    records: int
    characters: int
    random_ids: bool
    """UUIDs, the most expensive to look up; otherwise ids are numbered."""


SHAPES = {
    "100,000 records, 200 MB": Shape(100_000, 1_850, random_ids=True),
    "1,000,000 records, 200 MB": Shape(1_000_000, 50, random_ids=True),
    "100,000 records, 20 MB": Shape(100_000, 50, random_ids=False),
}


@dataclass(frozen=True, slots=True)
class Figures:
    """CPU of `split` and `merge` in microseconds per record, growth of memory in bytes, longest wait in seconds."""

    split: float
    merge: float
    memory: int
    longest_wait: float


async def record_rows() -> list[Row]:
    """Measures every shape."""
    rows: list[Row] = []
    for name in SHAPES:
        figures = await measured(name)
        cpu = f"{figures.split:.1f} to check and split, {figures.merge:.1f} to merge"
        rows += [
            (f"{name}: CPU a record, µs", cpu, "under 20"),
            ("the same: memory grows by", f"{figures.memory / 1e6:.0f} MB", "under 64 MB"),
            ("the same: the event loop waited at most", f"{figures.longest_wait * 1000:.0f} ms", ""),
        ]
    return rows


async def measured(name: str) -> Figures:
    """Measures one shape in a separate process."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.records", name, stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await process.communicate()
    return Figures(**json.loads(printed))


async def _measure(shape: Shape, folder: Path) -> Figures:
    source, output, errors = (folder / name for name in ("input", "output", "errors"))
    _write(source, requests(shape))
    _write(output, (_success(each, shape) for index, each in enumerate(_ids(shape)) if not _fails(index)))
    _write(errors, (_failure(each) for index, each in enumerate(_ids(shape)) if _fails(index)))
    meter = Meter(os.getpid())
    async with asyncio.TaskGroup() as group:
        waits = _Waits()
        watching = group.create_task(waits.watch())
        pace = Pace()
        split = await _cpu(_split(_reader(source), pace))
        merge = await _cpu(_merge(PartFiles(*map(_reader, (source, output, errors))), shape.records, pace))
        watching.cancel()
    return Figures(split / shape.records * 1e6, merge / shape.records * 1e6, meter.spent().memory, waits.longest)


async def _split(source: Open, pace: Pace) -> None:
    """Reads, checks for errors and duplicates, and splits; does not upload."""
    with Ids() as ids:
        async for part in Splitter(Intake(source(), EXPECTED, ids, pace).records()).parts():
            async for _ in part.pieces():
                pass


async def _merge(files: PartFiles, records: int, pace: Pace) -> None:
    """Reads the input's ids, the output and the errors, and merges them; does not publish."""
    with Ids() as ids:
        merge = Merge([[files]], ids, pace)
        async for _ in merge.outputs():
            pass
        async for _ in merge.errors():
            pass
        assert merge.merged.records == merge.merged.succeeded + merge.merged.failed == records
        assert not merge.merged.problems.total


class _Waits:
    """Measures how late a timer fires while records are processed: the delay of any other object."""

    def __init__(self) -> None:
        self.longest = 0.0

    async def watch(self) -> None:
        """Measures every 10 ms until cancelled."""
        while True:
            due = time.perf_counter() + 0.01
            await asyncio.sleep(0.01)
            self.longest = max(self.longest, time.perf_counter() - due)


async def _cpu(work: Coroutine[None, None, None]) -> float:
    before = time.process_time()
    await work
    return time.process_time() - before


def _reader(path: Path) -> Open:
    async def read() -> AsyncIterator[bytes]:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                yield chunk

    return read


def _write(path: Path, lines: Iterable[bytes]) -> None:
    with path.open("wb") as file:
        file.writelines(lines)


def _ids(shape: Shape) -> Iterator[str]:
    """Yields the ids of the records, the same at each call."""
    source = random.Random(1)
    for index in range(shape.records):
        yield str(uuid.UUID(int=source.getrandbits(128))) if shape.random_ids else f"request-{index:07}"


def _fails(index: int) -> bool:
    return index % FAILED_ONE_IN == 0


_WORDS = 'the quick brown fox says "hello", jumps over the lazy dog\nand then it is gone: '
_ERROR = {"code": "upstream_error", "message": "model temporarily unavailable"}


def _text(shape: Shape) -> str:
    return (_WORDS * (shape.characters // len(_WORDS) + 1))[: shape.characters]


def requests(shape: Shape) -> Iterator[bytes]:
    """Returns the lines of an input whose records are complete as they are."""
    return (_request(each, shape) for each in _ids(shape))


def _request(custom_id: str, shape: Shape) -> bytes:
    messages = [{"role": "user", "content": _text(shape)}]
    body = {"model": EXPECTED.model, "messages": messages}
    return _line({"custom_id": custom_id, "method": "POST", "url": EXPECTED.endpoint, "body": body})


def _success(custom_id: str, shape: Shape) -> bytes:
    choices = [{"index": 0, "message": {"role": "assistant", "content": _text(shape)}, "finish_reason": "stop"}]
    response = {"status_code": 200, "request_id": custom_id, "body": {"object": "chat.completion", "choices": choices}}
    return _line({"id": "batch_req_1", "custom_id": custom_id, "response": response, "error": None})


def _failure(custom_id: str) -> bytes:
    return _line({"id": "batch_req_1", "custom_id": custom_id, "response": None, "error": _ERROR})


def _line(value: dict[str, object]) -> bytes:
    return to_json(value) + b"\n"


def main() -> None:
    """Measures the shape named on the command line and prints the figures as JSON."""
    with tempfile.TemporaryDirectory(prefix="relay-bench-records-") as folder:
        print(json.dumps(asdict(asyncio.run(_measure(SHAPES[sys.argv[1]], Path(folder))))))


if __name__ == "__main__":
    main()
