"""When a batch that the cloud's list lacks is taken for never created: late, and after several complete lists."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import pytest

from relay_client import Cloud, Unreadable
from relay_operator.engine.confirmation import ConfirmationDelays
from relay_operator.engine.identity import Installation
from relay_operator.flows.batch.facts import BatchMemory
from relay_operator.flows.batch.gather import Gatherer
from relay_operator.flows.batch.names import OBJECT, TAG, PartTag
from relay_operator.flows.batch.plan import Sight
from tests.unit.client.scripted import Reply, scripted_server
from tests.unit.flows.batch.acting import INTENT
from tests.unit.flows.batch.examples import LONGEST_WAIT, NOON, TOKEN, batch, part, status

if TYPE_CHECKING:
    from pydantic import JsonValue


class Search:
    """Complete lists that lack what is searched for, at moments of the process's clock."""

    def __init__(self) -> None:
        self._now, self._memory = 0.0, BatchMemory("uid")
        nobody = cast("Any", None)  # nobody is asked for what a list means
        delays = ConfirmationDelays(absence=5, unknown=600, searches=2)
        self._gatherer = Gatherer(
            nobody, nobody, nobody, nobody, lambda: self._now, delays, Installation(), LONGEST_WAIT
        )

    def never_sent(self, what: str) -> None:
        """This process knows that it did not send it."""
        self._memory.unsent = what

    async def finds(self, *rows: JsonValue, alone: JsonValue = None) -> Sight:
        """What a list with these batches, and one of them `alone`, mean for a part whose create had no answer."""
        obj = batch(status=status(part(inputFileId="file_1", sentAt=NOON)))
        reply = Reply(200, json.dumps({"object": "list", "data": rows, "has_more": False}).encode())
        async with (
            scripted_server() as server,
            Cloud(server.url, "or_key_0123456789", inference_url=server.url, organization_id="org-1") as cloud,
        ):
            server.will(reply, *([Reply(200, json.dumps(alone).encode())] if alone else []))
            return (await self._gatherer._look(obj, INTENT, cloud, self._memory, exact=True)).sight

    def lacks(self, what: str, now: float) -> Sight:
        """What one more list without it means."""
        self._now = now
        return self._gatherer._not_seen(what, self._memory).sight


@pytest.fixture
def search() -> Search:
    return Search()


def test_it_takes_two_lists_after_all_that_may_still_be_on_its_way(search: Search) -> None:
    moments = (1000, 1005, 1599, 1600, 1602, 1605)
    assert [search.lacks("token/1/1", now) for now in moments] == [Sight.UNSURE] * 5 + [Sight.ABSENT]


def test_lists_that_lacked_one_say_nothing_of_another(search: Search) -> None:
    assert [search.lacks("token/1/1", now) for now in (1000, 1600, 1605)][-1] is Sight.ABSENT
    moments = (1606, 2205, 2206, 2211)
    assert [search.lacks("token/1/2", now) for now in moments] == [Sight.UNSURE] * 3 + [Sight.ABSENT]


def test_what_this_process_did_not_send_is_absent_at_once(search: Search) -> None:
    search.never_sent("token/1/2")
    assert search.lacks("token/1/1", 1000) is Sight.UNSURE
    assert search.lacks("token/1/2", 1000) is Sight.ABSENT


ROW: dict[str, JsonValue] = {"id": "batch_1", "status": "in_progress", "input_file_id": "file_1"}
OWN: dict[str, JsonValue] = {"id": "batch_2", "metadata": {TAG: str(PartTag(TOKEN, 1, 1, 1, 1))}}


async def test_a_batch_of_the_same_file_without_its_metadata_may_be_the_one(search: Search) -> None:
    search.never_sent(f"{TOKEN}/1/1")  # so that a list without it would be believed at once
    assert await search.finds(ROW | {"input_file_id": "file_2"}) is Sight.ABSENT
    assert await search.finds(ROW | {"metadata": {"team": "a"}}) is Sight.ABSENT
    assert await search.finds(ROW, ROW | OWN) is Sight.FOUND
    for odd in (ROW, ROW | {"metadata": None}, ROW | {"metadata": "a"}):
        with pytest.raises(Unreadable, match="the list shows batch_1, of the same file, without its metadata"):
            await search.finds(odd, alone=ROW)


async def test_a_batch_without_its_metadata_in_the_list_is_read_alone(search: Search) -> None:
    search.never_sent(f"{TOKEN}/1/1")
    assert await search.finds(ROW, alone=ROW | OWN | {"id": "batch_1"}) is Sight.FOUND
    assert await search.finds(ROW, alone=ROW | {"metadata": {"team": "a"}}) is Sight.ABSENT
    theirs: dict[str, JsonValue] = {TAG: str(PartTag(TOKEN, 1, 1, 1, 1)), OBJECT: "ns/theirs"}
    assert await search.finds(ROW, alone=ROW | {"metadata": theirs}) is Sight.ABSENT


@pytest.mark.parametrize(
    ("object_", "sight"),
    [("ns/nightly", Sight.FOUND), (None, Sight.FOUND), ("ns/theirs", Sight.ABSENT), ("other/nightly", Sight.ABSENT)],
)
async def test_a_batch_that_names_another_object_is_not_the_one_whatever_an_intent_says(
    search: Search, object_: str | None, sight: Sight
) -> None:
    search.never_sent(f"{TOKEN}/1/1")
    tag = str(PartTag(TOKEN, 1, 1, 1, 1))
    told: dict[str, JsonValue] = {TAG: tag} if object_ is None else {TAG: tag, OBJECT: object_}
    assert await search.finds({**ROW, "metadata": told}) is sight
