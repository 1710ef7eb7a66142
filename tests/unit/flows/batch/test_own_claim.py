"""What a batch wrote under its claim, before it was interrupted and lost its status, is its own; nothing else is."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, cast

import pytest

from relay_kube.kube import Kube
from relay_operator.api.conditions import Reason
from relay_operator.api.inferencebatch import OutputStatus, RequestCounts
from relay_operator.flows.batch.destinations import Destinations
from relay_operator.flows.batch.marks import mark_of
from relay_operator.flows.batch.result import Published, StoppedError
from relay_operator.flows.batch.sources import Sources
from relay_operator.objectstores.addresses import StorePolicy
from relay_operator.objectstores.stores import ObjectStores
from tests.unit.flows.batch.examples import NOON, TOKEN, batch, part, sent, status

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from relay_operator.api.inferencebatch import InferenceBatch, PartStatus


@asynccontextmanager
async def _destinations(folder: Path) -> AsyncIterator[Destinations]:
    kube = cast("Kube", None)  # a file needs none
    async with ObjectStores(StorePolicy(file_roots=(PurePosixPath(folder),))) as stores:
        yield Destinations(kube, stores, Sources(kube, stores), lambda: True)


def _batch(folder: Path, each: PartStatus) -> InferenceBatch:
    return batch(output={"url": f"file://{folder}"}, status=status(each))


async def _refused(folder: Path, each: PartStatus) -> str:
    async with _destinations(folder) as destinations:
        with pytest.raises(StoppedError) as stopped:
            await destinations.check(_batch(folder, each), TOKEN)
    assert stopped.value.came.reason is Reason.OUTPUT_EXISTS
    return stopped.value.came.message


async def test_what_it_wrote_itself_is_written_again(tmp_path: Path) -> None:
    async with _destinations(tmp_path) as destinations:
        obj = _batch(tmp_path, sent(state="completed"))
        await destinations.claim(obj, TOKEN)
        (tmp_path / "output.jsonl").write_text("{}")
        await destinations.check(obj, TOKEN)
        await destinations.claim(obj, TOKEN)


@pytest.mark.parametrize("written", ["output.jsonl", "errors.jsonl"])
async def test_what_is_there_without_its_claim_is_anothers(tmp_path: Path, written: str) -> None:
    (tmp_path / f"{written}.claim").write_text("another")
    (tmp_path / written).write_text("{}")
    assert written in await _refused(tmp_path, sent(state="completed"))


async def test_a_batch_that_paid_for_nothing_cannot_have_written(tmp_path: Path) -> None:
    """It may be finished and have lost its status: to go on would pay once more."""
    (tmp_path / "output.jsonl.claim").write_text(TOKEN)
    (tmp_path / "output.jsonl").write_text("{}")
    await _refused(tmp_path, part(inputFileId="file_1"))


async def test_a_mark_of_another_batch_shows_that_it_wrote_there(tmp_path: Path) -> None:
    came = Published(OutputStatus(lines=1), RequestCounts(total=1, completed=1), 0, 0, NOON)
    (tmp_path / "output.jsonl.claim").write_text(TOKEN)
    for name, text in (("output.jsonl", "{}"), ("result.json", mark_of("another", came))):
        (tmp_path / name).write_text(text)
    assert "result.json" in await _refused(tmp_path, sent(state="completed"))


async def test_a_claim_beside_what_another_wrote_is_let_go_at_once(tmp_path: Path) -> None:
    """Else the next look would take it for the proof that the batch wrote there itself."""
    (tmp_path / "output.jsonl").write_text("{}")
    async with _destinations(tmp_path) as destinations:
        with pytest.raises(StoppedError):
            await destinations.claim(_batch(tmp_path, sent(state="completed")), TOKEN)
    await _refused(tmp_path, sent(state="completed"))


async def test_what_it_published_and_let_go_may_be_claimed_again(tmp_path: Path) -> None:
    came = Published(OutputStatus(lines=1), RequestCounts(total=1, completed=1), 0, 0, NOON)
    for name, text in (("output.jsonl", "{}"), ("result.json", mark_of(TOKEN, came))):
        (tmp_path / name).write_text(text)
    async with _destinations(tmp_path) as destinations:
        obj = _batch(tmp_path, sent(state="completed"))
        await destinations.check(obj, TOKEN)
        await destinations.claim(obj, TOKEN)
