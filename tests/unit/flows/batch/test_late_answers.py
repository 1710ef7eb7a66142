"""A batch that is final, and counts answers that are in no file: they are waited for, and never paid for twice."""

from __future__ import annotations

import json
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from relay_client import Cloud
from relay_operator.api.conditions import Reason
from relay_operator.api.inferencebatch import InputStatus
from relay_operator.engine.cache import Cache
from relay_operator.engine.confirmation import ConfirmationDelays
from relay_operator.engine.identity import Installation
from relay_operator.engine.shared_lists import SharedLists
from relay_operator.flows.batch import predicates
from relay_operator.flows.batch.facts import BatchMemory
from relay_operator.flows.batch.gather import Gatherer
from relay_operator.flows.batch.names import TAG, PartTag
from relay_operator.flows.batch.polls import BatchPolls
from relay_operator.flows.batch.result import Published, StoppedError, Uploaded, WorkRefused
from tests.unit.client.scripted import Reply, scripted_server
from tests.unit.flows.batch.acting import INTENT, LIST, acting_in
from tests.unit.flows.batch.examples import LONGEST_WAIT, NOON, TOKEN, batch, sent, status
from tests.unit.records.streams import file, record, success

if TYPE_CHECKING:
    from relay_operator.api.inferencebatch import PartStatus

METADATA = {TAG: str(PartTag(TOKEN, 1, 1, 1, 1))}


class Look:
    """Looks at the one batch of an object, at moments of the process's clock."""

    def __init__(self) -> None:
        self._now, self._memory = 0.0, BatchMemory("uid")
        nobody, polls = cast("Any", None), BatchPolls(SharedLists(1.0, lambda: 0.0), 1.0, lambda: 0.0)
        delays = ConfirmationDelays(absence=5, newborn=30, unknown=600)
        self._gatherer = Gatherer(
            nobody, Cache(), polls, nobody, lambda: self._now, delays, Installation(), LONGEST_WAIT
        )

    async def at(self, now: float, told: dict[str, Any]) -> PartStatus:
        """The part as it is recorded, if the cloud tells this then."""
        self._now = now
        answer = {
            "id": "batch_1_1",
            "metadata": METADATA,
            "request_counts": {"total": 10, "completed": told.get("completed", 6)},
        }
        async with (
            scripted_server() as server,
            Cloud(server.url, "or_key_0123456789", inference_url=server.url, organization_id="org-1") as cloud,
        ):
            if told["status"] == HTTPStatus.NOT_FOUND:
                server.will(
                    Reply(404, b'{"error":{"message":"no","type":"error","code":null}}'),
                    Reply(200, b'{"object":"list","data":[],"has_more":false}'),
                )
            else:
                server.will(Reply(200, json.dumps(answer | told).encode()))
            seen = await self._gatherer._poll(batch(status=status(sent())), cloud, self._memory, exact=True)
        assert seen.status is not None
        (part,) = seen.status.parts or []
        return part


async def test_a_batch_is_not_over_before_its_answers_are_in_a_file() -> None:
    look, ended = Look(), {"status": "cancelled"}
    assert [(await look.at(now, ended)).state for now in (1000, 1599)] == ["in_progress"] * 2
    part = await look.at(1599, ended | {"output_file_id": "file_out"})
    assert (part.state, part.output_file_id) == ("cancelled", "file_out")


async def test_a_batch_is_not_over_before_its_errors_are_in_a_file() -> None:
    """Without them, no record that failed would be sent again, and each would be reported as lost."""
    counts = {"total": 10, "completed": 6, "failed": 4}
    look, ended = Look(), {"status": "completed", "request_counts": counts, "output_file_id": "file_out"}
    assert (await look.at(1000, ended)).state == "in_progress"
    part = await look.at(1001, ended | {"error_file_id": "file_err"})
    assert (part.state, part.error_file_id) == ("completed", "file_err")


async def test_a_batch_that_is_refused_has_no_file_of_errors_to_wait_for() -> None:
    counts = {"total": 10, "completed": 0, "failed": 10}
    assert (await Look().at(1000, {"status": "failed", "request_counts": counts})).state == "failed"


async def test_answers_that_never_come_are_not_waited_for_for_ever() -> None:
    look, ended = Look(), {"status": "cancelled"}
    assert [(await look.at(now, ended)).state for now in (1000, 1599, 1600)] == ["in_progress"] * 2 + ["cancelled"]


_COST = {"input_tokens": 1, "output_tokens": 1, "cost_nano_usd": 5}


@pytest.mark.parametrize(
    "told",
    [
        {"status": "completed", "completed": 0},
        {"status": "completed", "completed": 9, "output_file_id": "file_out"},
        {"status": "completed", "request_counts": {}},
        {"status": "expired", "completed": 0, "usage": _COST},
    ],
)
async def test_an_end_without_all_its_counts_is_read_again_and_never_sent_again(told: dict[str, Any]) -> None:
    look = Look()
    before, after = [await look.at(now, told) for now in (1000, 1600)]
    assert (before.state, after.state) == ("in_progress", told["status"])
    ending = predicates.ending(batch().spec, status(after), NOON)
    assert ending is not None
    assert ending.reason == "ResultsLost"


async def test_a_batch_that_is_not_found_is_given_up_only_when_no_create_could_come_any_more() -> None:
    look, absent = Look(), {"status": 404}
    assert [(await look.at(now, absent)).state for now in (1000, 1599, 1600)] == ["in_progress", "in_progress", "gone"]


@pytest.mark.parametrize("told", [{"status": "in_progress"}, {"status": "cancelled", "completed": 0}])
async def test_without_answers_there_is_no_file_to_wait_for(told: dict[str, Any]) -> None:
    assert (await Look().at(1000, told)).state == told["status"]


CUT_OFF = sent(state="cancelled", completed=6, outputFileId="file_out")
FEW, ALL = (Reply(200, file(success(f"r{n}") for n in range(count))) for count in (4, 6))
RECORDS = Reply(200, file(record(f"r{n}") for n in range(10)))
UPLOADED = Reply(200, b'{"id":"file_new","object":"file"}')


async def _again(folder: Path, *script: Reply) -> Uploaded | Published:
    obj = batch(
        output={"url": f"file://{folder}"},
        status=status(CUT_OFF, round=2, attempt=2, input=InputStatus(digest="d", records=10)),
    )
    async with acting_in(folder, *script) as (actor, cloud, _):
        return await actor.sending.again(obj, cloud, INTENT, search=False)


async def test_a_record_whose_paid_answer_is_missing_is_not_sent_again(tmp_path: Path) -> None:
    with pytest.raises(StoppedError) as stopped:
        await _again(tmp_path, FEW, LIST, FEW)
    assert isinstance(stopped.value.came, WorkRefused)
    assert stopped.value.came.reason is Reason.RESULTS_LOST
    assert "the cloud counts 6 answers, and its files have 4" in stopped.value.came.message


async def test_paid_answers_that_are_there_at_the_second_reading_are_believed(tmp_path: Path) -> None:
    came = await _again(tmp_path, FEW, LIST, ALL, RECORDS, UPLOADED)
    assert isinstance(came, Uploaded)
    assert came.records == 4
