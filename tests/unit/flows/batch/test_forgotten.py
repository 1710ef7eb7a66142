"""A status that a backup restored may be older than the batches: they are looked for before another is created."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

import pytest

from relay_client import Cloud
from relay_operator.engine.cache import Cache
from relay_operator.engine.confirmation import ConfirmationDelays
from relay_operator.engine.identity import Installation
from relay_operator.engine.shared_lists import SharedLists
from relay_operator.flows.batch.facts import BatchMemory
from relay_operator.flows.batch.gather import Gatherer
from relay_operator.flows.batch.names import TAG, PartTag
from relay_operator.flows.batch.plan import Sight
from relay_operator.flows.batch.polls import BatchPolls
from tests.unit.client.scripted import Reply, scripted_server
from tests.unit.flows.batch.acting import INTENT
from tests.unit.flows.batch.examples import LONGEST_WAIT, NOON, TOKEN, batch, part, sent, status

if TYPE_CHECKING:
    from relay_operator.api.inferencebatch import InferenceBatchStatus

Row = dict[str, Any]
AN_HOUR_LATER = int((NOON + timedelta(hours=1)).timestamp())


def _row(number: int, of_round: int = 1, created_at: int | None = AN_HOUR_LATER) -> Row:
    tag = str(PartTag(TOKEN, of_round, number, 2, of_round))
    told = {"id": f"batch_{of_round}_{number}", "status": "in_progress", "metadata": {TAG: tag}}
    return told if created_at is None else told | {"created_at": created_at}


def _other(created_at: int) -> Row:
    return {"id": "batch_other", "status": "completed", "metadata": {}, "created_at": created_at}


async def _look(
    memory: BatchMemory, before: InferenceBatchStatus, *pages: list[Row], alone: Row | None = None
) -> tuple[Sight, int, int]:
    """The sight, the number of batches found, and how many requests it took."""
    nobody, polls = cast("Any", None), BatchPolls(SharedLists(1.0, lambda: 0.0), 1.0, lambda: 0.0)
    made = Gatherer(nobody, Cache(), polls, nobody, lambda: 0.0, ConfirmationDelays(), Installation(), LONGEST_WAIT)
    async with (
        scripted_server() as server,
        Cloud(server.url, "or_key_0123456789", inference_url=server.url, organization_id="org-1") as cloud,
    ):
        replies = []
        for number, page in enumerate(pages, 1):
            last = {"last_id": page[-1]["id"]} if page else {}
            told = {"object": "list", "data": page, "has_more": number < len(pages), **last}
            replies.append(Reply(200, json.dumps(told).encode()))
        server.will(*replies, *([Reply(200, json.dumps(alone).encode())] if alone else []))
        seen = await made._look(batch(status=before), INTENT, cloud, memory, exact=False)
        return seen.sight, len(seen.found), len(server.targets)


UNPAID = status(part(1, inputFileId="file_1"))


async def test_a_batch_that_status_lacks_is_found_before_it_would_be_created_again() -> None:
    memory = BatchMemory("uid-1")
    assert await _look(memory, UNPAID, [_row(1)]) == (Sight.FOUND, 1, 1)
    assert not memory.knows_all


async def test_a_batch_of_its_file_whose_row_lacks_the_metadata_is_read_alone() -> None:
    hollow = {**_row(1), "metadata": None, "input_file_id": "file_1"}
    assert await _look(BatchMemory("uid-1"), UNPAID, [hollow], alone=_row(1)) == (Sight.FOUND, 1, 2)
    theirs = _other(AN_HOUR_LATER) | {"id": hollow["id"]}
    assert await _look(BatchMemory("uid-1"), UNPAID, [hollow], alone=theirs) == (Sight.CLEAR, 0, 2)


async def test_also_one_of_a_later_round_with_those_that_status_has() -> None:
    second = status(sent(1, state="completed", completed=10), part(1, 2, inputFileId="file_2"))
    assert await _look(BatchMemory("uid-1"), second, [_row(1, 3), _row(1, 2), _row(1)]) == (Sight.FOUND, 3, 1)


async def test_a_late_create_of_a_part_that_status_has_is_not_found_again_and_again() -> None:
    memory, half = BatchMemory("uid-1"), status(sent(1, state="completed", completed=10), part(2, inputFileId="f"))
    late = _row(1) | {"id": "batch_late"}
    assert await _look(memory, half, [late, _row(1)]) == (Sight.CLEAR, 0, 1)
    assert memory.knows_all


async def test_if_status_has_all_the_list_is_read_once() -> None:
    memory = BatchMemory("uid-1")
    assert await _look(memory, UNPAID, [_other(AN_HOUR_LATER)]) == (Sight.CLEAR, 0, 1)
    assert await _look(memory, UNPAID, [_row(1)]) == (Sight.CLEAR, 0, 0)


async def test_nothing_is_looked_for_if_nothing_is_to_be_created() -> None:
    rested = status(sent(1, state="completed", completed=10))
    assert await _look(BatchMemory("uid-1"), rested, []) == (Sight.CLEAR, 0, 0)


@pytest.mark.parametrize(("days", "pages"), [(0, 2), (0.9, 2), (1.1, 1)])
async def test_the_list_is_read_as_far_back_as_the_object_goes(days: float, pages: int) -> None:
    then = int((INTENT.started_at - timedelta(days=days)).timestamp())
    sight, _, requests = await _look(BatchMemory("uid-1"), UNPAID, [_other(then)], [_row(1, created_at=None)])
    assert (sight, requests) == (Sight.FOUND if pages == 2 else Sight.CLEAR, pages)


async def test_they_are_looked_for_before_the_upload_if_the_backup_is_older_than_that() -> None:
    memory, begun = BatchMemory("uid-1"), status()
    assert not begun.parts
    assert await _look(memory, begun, [_row(1), _row(2)]) == (Sight.FOUND, 2, 1)
    assert await _look(memory, begun, [_other(AN_HOUR_LATER)]) == (Sight.CLEAR, 0, 1)
    assert await _look(memory, begun) == (Sight.CLEAR, 0, 0)
