"""Who does not lead any more lets nothing be seen that it began to publish."""

from pathlib import Path, PurePosixPath
from typing import cast

import pytest

from relay_kube.errors import NotLeading
from relay_kube.kube import Kube
from relay_operator.api.inferencebatch import InferenceBatch, OutputStatus, RequestCounts
from relay_operator.flows.batch.destinations import Destinations
from relay_operator.flows.batch.result import Published
from relay_operator.flows.batch.sources import Sources
from relay_operator.objectstores.addresses import StorePolicy
from relay_operator.objectstores.stores import ObjectStores
from relay_operator.records.ids import Ids
from relay_operator.records.merge import Merge, PartFiles
from relay_operator.records.pace import Pace
from tests.unit.flows.batch.examples import NOON, batch
from tests.unit.records.streams import opens, record, success


async def _published(folder: Path, leads: list[bool]) -> list[str]:
    """What is there after a publication in the course of which this replica leads, or does not any more."""
    kube = cast("Kube", None)  # a file needs none
    async with ObjectStores(StorePolicy(file_roots=(PurePosixPath(folder),))) as stores:
        destinations = Destinations(kube, stores, Sources(kube, stores), lambda: leads.pop(0))
        with Ids() as ids:
            merge = Merge([[PartFiles(opens([record("a")]), opens([success("a")]), None)]], ids, Pace())
            if all(leads):
                await destinations.write(_batch(folder), merge, "token", _ended)
            else:
                with pytest.raises(NotLeading):
                    await destinations.write(_batch(folder), merge, "token", _ended)
    return _names(folder)


def _ended(output: OutputStatus) -> Published:
    return Published(output, RequestCounts(), 0, 0, NOON)


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def _batch(folder: Path) -> InferenceBatch:
    return batch(output={"url": f"file://{folder}"})


@pytest.mark.parametrize(
    ("leads", "seen"),
    [
        ([True, True, True], ["errors.jsonl", "output.jsonl", "result.json"]),
        ([True, True, False], ["errors.jsonl", "output.jsonl"]),
        ([True, False], ["output.jsonl"]),
        ([False], []),
    ],
    ids=["to the end", "until the errors", "until the answers", "not any more"],
)
async def test_an_upload_is_completed_only_by_who_leads(tmp_path: Path, leads: list[bool], seen: list[str]) -> None:
    assert await _published(tmp_path, leads) == seen
