"""How running batches are read: all with one list, unless something changed."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import pytest

from relay_client import Cloud, Unreadable
from relay_client.answers import MAX_VALUES
from relay_operator.api.conditions import ConditionType, Reason
from relay_operator.api.inferencebatch import SHOWN_PROBLEMS, PartStatus
from relay_operator.api.meta import ObjectKey
from relay_operator.engine.account import AccountReady, AccountRefused
from relay_operator.engine.actions import Keep, Nothing, Wait
from relay_operator.engine.cache import Cache
from relay_operator.engine.confirmation import ConfirmationDelays
from relay_operator.engine.endpoints import Endpoints
from relay_operator.engine.flow import Turn
from relay_operator.engine.identity import Installation, identity_of
from relay_operator.engine.queue import Priority, Queue
from relay_operator.engine.shared_lists import SharedLists
from relay_operator.flows.batch.actions import Cancel, End
from relay_operator.flows.batch.facts import BatchMemory, running_unseen
from relay_operator.flows.batch.gather import Gatherer
from relay_operator.flows.batch.names import TAG, PartTag
from relay_operator.flows.batch.places import Places
from relay_operator.flows.batch.plan import Live, plan
from relay_operator.flows.batch.polls import BatchPolls
from relay_operator.flows.batch.report import report_of
from relay_operator.flows.batch.transfers import Transfers
from tests.unit.client.scripted import Reply, scripted_server
from tests.unit.flows.batch.acting import KEY, NOT_FOUND, ready
from tests.unit.flows.batch.examples import LONGEST_WAIT, NOON, TOKEN, batch, part, sent, status

if TYPE_CHECKING:
    from relay_operator.engine.account import AccountReady

PARTS = range(1, 5)
ROWS: list[dict[str, Any]] = [
    {"id": f"batch_1_{part}", "status": "in_progress", "metadata": {TAG: str(PartTag(TOKEN, 1, part, 4, 1))}}
    for part in PARTS
]
LIST = Reply(200, json.dumps({"object": "list", "data": ROWS, "has_more": False}).encode())


class _Accounts:
    """Has one account, which works."""

    def __init__(self, account: AccountReady) -> None:
        self._account = account

    async def resolve(self, namespace: str, ref: object, *, ending: bool = False) -> AccountReady:
        return self._account

    def failed(self, account: AccountReady, error: Exception) -> None:
        pass


def gatherer(cloud: Cloud) -> Gatherer:
    return Gatherer(
        accounts=cast("Any", _Accounts(ready(cloud))),
        cache=Cache(),
        polls=BatchPolls(SharedLists(2.5, lambda: 0.0), 600.0, lambda: 0.0),
        transfers=Transfers(Queue[ObjectKey](lambda: 0.0), Places(1)),
        clock=lambda: 0.0,
        delays=ConfirmationDelays(),
        installation=Installation(),
        longest_wait=LONGEST_WAIT,
    )


@pytest.mark.parametrize(
    ("priority", "asked"),
    [
        (Priority.RETRY, ["GET /v1/batches?limit=100"]),
        (Priority.POLL, ["GET /v1/batches?limit=100"]),
        (Priority.CHANGE, [f"GET /v1/batches/batch_1_{part}" for part in PARTS]),
        (Priority.DELETE, [f"GET /v1/batches/batch_1_{part}" for part in PARTS]),
    ],
)
async def test_running_parts_are_read_with_one_list_unless_something_changed(
    priority: Priority, asked: list[str]
) -> None:
    obj = batch(status=status(*(sent(part) for part in PARTS)))
    async with (
        scripted_server() as server,
        Cloud(server.url, "or_key_0123456789", inference_url=server.url, organization_id="org-1") as cloud,
    ):
        server.will(LIST, *(Reply(200, json.dumps(row).encode()) for row in ROWS))
        if priority < Priority.RETRY:
            server.script.popleft()
        facts = await gatherer(cloud).gather(Turn(KEY, "uid-1", NOON, priority), obj, BatchMemory("uid-1"))
    assert facts.error is None
    assert server.targets == asked


@pytest.mark.parametrize(("available", "unfunded"), [(99, True), (100, False)])
async def test_what_runs_for_an_account_without_funds_says_so(available: int, unfunded: bool) -> None:
    obj = batch(status=status(*(sent(part) for part in PARTS)))
    money = {"availableCents": available, "autoStopFloorCents": 100}
    low = [{"type": "FundsLow", "status": "True"}]
    account = {"metadata": {"name": "default"}, "status": {**money, "conditions": low}}
    async with (
        scripted_server() as server,
        Cloud(server.url, "or_key_0123456789", inference_url=server.url, organization_id="org-1") as cloud,
    ):
        server.will(LIST)
        looking = gatherer(cloud)
        looking.cache.put(ready(cloud).key, cast("Any", account))
        facts = await looking.gather(Turn(KEY, "uid-1", NOON, Priority.POLL), obj, BatchMemory("uid-1"))
    told = report_of(facts, Keep(), Nothing(), facts.status, unreachable=False)
    assert told is not None
    assert (told.ready, told.reason, "records wait until there are funds" in told.message) == (
        "True", Reason.RUNNING, unfunded
    )  # fmt: skip
    exceeded = [(ConditionType.BUDGET_EXCEEDED, Reason.BALANCE_EXHAUSTED)]
    assert [(each.type, each.reason) for each in told.extra] == exceeded * unfunded


async def test_of_a_batch_only_what_is_shown_or_needed_is_kept() -> None:
    problems = [{"message": f"line {number}", "line": number} for number in range(MAX_VALUES)]
    told = {**ROWS[0], "errors": {"data": problems}}
    told["metadata"] = {"team": "ml", **ROWS[0]["metadata"]}
    async with scripted_server() as server, Cloud(server.url, "or_key", inference_url=server.url) as cloud:
        server.will(Reply(200, json.dumps(told).encode()))
        polls = BatchPolls(SharedLists(2.5, lambda: 0.0), 600.0, lambda: 0.0)
        (seen,) = (await polls.look(cloud, ["batch_1_1"], exact=True)).found.values()
    assert seen is not None
    assert seen.errors is not None
    assert seen.metadata == ROWS[0]["metadata"]
    assert [problem.line for problem in seen.errors.data] == list(range(SHOWN_PROBLEMS))


@pytest.mark.parametrize(
    ("parts", "told", "goes_on"),
    [
        ([part()], {}, True),
        ([sent(state="completed")], {}, False),
        ([sent(state="completed"), part(2)], {}, False),
        ([sent(state="completed")], {"completion_time": NOON}, False),
        ([part()], {"completion_time": NOON}, False),
        ([], {"completion_time": NOON}, True),
    ],
    ids=[
        "nothing was sent",
        "its answers wait",
        "some do",
        "finished",
        "finished with an upload",
        "finished with nothing",
    ],
)
async def test_a_batch_goes_on_by_another_url_only_if_nothing_was_sent(
    parts: list[PartStatus], told: dict[str, datetime], *, goes_on: bool
) -> None:
    """Its answers are not in the other cloud, and would count as lost."""
    made_for = identity_of(batch().metadata, "", "org-1", "former")
    obj = batch(status=status(*parts, identity=made_for, **told))
    async with Cloud("https://cloud.example", "or_key_0123456789", organization_id="org-1") as cloud:
        facts = await gatherer(cloud).gather(Turn(KEY, "uid-1", NOON, Priority.POLL), obj, BatchMemory("uid-1"))
    assert isinstance(facts.account, AccountReady) is goes_on


async def test_a_batch_that_is_not_found_is_to_be_told_to_end_and_then_counts_as_ended() -> None:
    obj, memory = batch(status=status(sent(state="gone"))), BatchMemory("uid-1")
    async with (
        scripted_server() as server,
        Cloud(server.url, "or_key_0123456789", inference_url=server.url, organization_id="org-1") as cloud,
    ):
        server.script.clear()
        before = await gatherer(cloud).gather(Turn(KEY, "uid-1", NOON, Priority.POLL), obj, memory)
        memory.cancelled["batch_1_1"] = 0.0
        after = await gatherer(cloud).gather(Turn(KEY, "uid-1", NOON, Priority.POLL), obj, memory)
    assert (before.view.live, after.view.live, server.targets) == (Live.RUNNING, Live.NONE, [])


@pytest.mark.parametrize("endpoint", ["", "former"], ids=["as an earlier release recorded it", "another"])
async def test_batches_are_not_looked_for_by_another_url(endpoint: str) -> None:
    """A list without them would mean that they have to be created again."""
    made_for = identity_of(batch().metadata, "", "org-1", endpoint)
    obj = batch(status=status(*(sent(part) for part in PARTS), identity=made_for))
    async with (
        scripted_server() as server,
        Cloud(server.url, "or_key_0123456789", inference_url=server.url, organization_id="org-1") as cloud,
    ):
        server.will(LIST)
        facts = await gatherer(cloud).gather(Turn(KEY, "uid-1", NOON, Priority.POLL), obj, BatchMemory("uid-1"))
    assert (len(server.targets), isinstance(facts.account, AccountRefused)) == ((0, True) if endpoint else (1, False))
    # What is written on the object stays what was sent, until the account that is called has what was sent.
    assert facts.known_intent.account == ("" if endpoint else "CloudAccount/default")


@pytest.mark.parametrize(
    ("row", "outdated", "recorded"),
    [
        (ROWS[0], "", "inference"),
        (ROWS[0], "the CRDs are older", ""),  # they would not keep it, so that each look would write it
        ({**ROWS[0], "metadata": None}, "", ""),
        (None, "", ""),
    ],
    ids=["shown", "shown, with older CRDs", "shown without its tag", "not shown"],
)
async def test_the_cloud_that_shows_a_batch_of_an_earlier_release_is_recorded(
    row: dict[str, Any] | None, outdated: str, recorded: str
) -> None:
    """Else a 404 by another URL would be believed as long as the batch runs."""
    made_for = identity_of(batch().metadata, "", "org-1", "")
    obj = batch(status=status(sent(1), identity=made_for))
    async with (
        scripted_server() as server,
        Cloud(server.url, "or_key_0123456789", inference_url=server.url, organization_id="org-1") as cloud,
    ):
        server.will(Reply(200, json.dumps(row).encode()) if row else NOT_FOUND, LIST)
        endpoints = Endpoints("management", "inference")
        looking = gatherer(cloud)
        looking.accounts = cast("Any", _Accounts(replace(ready(cloud), endpoints=endpoints)))
        facts = await looking.gather(Turn(KEY, "uid-1", NOON, Priority.POLL, outdated), obj, BatchMemory("uid-1"))
    assert facts.status.identity == made_for.model_copy(update={"endpoint": recorded})


async def test_the_end_of_a_batch_is_read_from_the_batch_itself() -> None:
    """A row of the list may lack the files with its answers, and a batch that is over is not looked at again."""
    obj = batch(status=status(*(sent(part) for part in PARTS)))
    ended = {**ROWS[1], "status": "completed", "request_counts": {"total": 10, "completed": 10}}
    rows = [ROWS[0], ended, *ROWS[2:]]
    async with (
        scripted_server() as server,
        Cloud(server.url, "or_key_0123456789", inference_url=server.url, organization_id="org-1") as cloud,
    ):
        server.will(
            Reply(200, json.dumps({"object": "list", "data": rows, "has_more": False}).encode()),
            Reply(200, json.dumps({**ended, "output_file_id": "file_out"}).encode()),
        )
        facts = await gatherer(cloud).gather(Turn(KEY, "uid-1", NOON, Priority.POLL), obj, BatchMemory("uid-1"))
    assert server.targets == ["GET /v1/batches?limit=100", "GET /v1/batches/batch_1_2"]
    over = [part for part in facts.status.parts or () if part.state == "completed"]
    assert [part.output_file_id for part in over] == ["file_out"]


async def test_an_answer_about_another_batch_does_not_hide_that_the_others_are_to_end() -> None:
    obj = batch(status=status(sent(1), sent(2)), suspend=True)
    wrong = {**ROWS[0], "metadata": {TAG: str(PartTag("another", 1, 1, 2, 1))}}
    memory = BatchMemory("uid-1")
    async with (
        scripted_server() as server,
        Cloud(server.url, "or_key_0123456789", inference_url=server.url, organization_id="org-1") as cloud,
    ):
        server.will(*(Reply(200, json.dumps(row).encode()) for row in (wrong, ROWS[1])))
        facts = await gatherer(cloud).gather(Turn(KEY, "uid-1", NOON, Priority.CHANGE), obj, memory)
    assert isinstance(facts.error, Unreadable)
    assert (plan(facts.view), [part.batch_id for part in running_unseen(obj.status, memory)]) == (
        Cancel(),
        ["batch_1_2"],
    )


@pytest.mark.parametrize(
    ("asked", "cancelled", "suspended"),
    [({}, True, True), ({}, False, None), ({"deletion": True}, True, None)],
    ids=["resumed", "cancelled by somebody else", "deleted"],
)
async def test_a_suspension_that_was_over_before_it_could_be_recorded_counts(
    asked: dict[str, Any], cancelled: bool, suspended: bool | None
) -> None:
    """Its records go on, and lose no attempt."""
    obj, memory = batch(status=status(sent(1))), BatchMemory("uid-1")
    if asked:
        obj = obj.model_copy(update={"metadata": obj.metadata.model_copy(update={"deletion_timestamp": NOON})})
    memory.cancelled.update({"batch_1_1": 0.0} if cancelled else {})
    async with (
        scripted_server() as server,
        Cloud(server.url, "or_key_0123456789", inference_url=server.url, organization_id="org-1") as cloud,
    ):
        server.will(Reply(200, json.dumps({**ROWS[0], "status": "cancelled"}).encode()))
        facts = await gatherer(cloud).gather(Turn(KEY, "uid-1", NOON, Priority.CHANGE), obj, memory)
    assert facts.status.suspended is suspended


HTML = Reply(200, b"<html>")


@pytest.mark.parametrize(
    ("asked", "action"),
    [
        ({}, Wait(Reason.CLOUD_UNAVAILABLE)),
        ({"budget": {"maxCost": "2.00"}}, End()),
        ({"activeDeadlineSeconds": 60}, Wait(Reason.CLOUD_UNAVAILABLE)),  # it may have completed in time
        ({"suspend": True}, Cancel()),
    ],
    ids=["nothing is to end", "it costs too much", "its time is up", "suspended"],
)
async def test_a_batch_that_cannot_be_read_does_not_hide_what_the_others_cost(
    asked: dict[str, Any], action: object
) -> None:
    obj = batch(status=status(sent(1), sent(2), start_time=NOON - timedelta(hours=1)), **asked)
    spent = {**ROWS[1], "usage": {"cost_nano_usd": 3 * 10**9}}
    memory = BatchMemory("uid-1")
    async with (
        scripted_server() as server,
        Cloud(server.url, "or_key_0123456789", inference_url=server.url, organization_id="org-1") as cloud,
    ):
        server.will(HTML, Reply(200, json.dumps(spent).encode()))
        facts = await gatherer(cloud).gather(Turn(KEY, "uid-1", NOON, Priority.CHANGE), obj, memory)
    assert isinstance(facts.error, Unreadable)
    assert (facts.status.cost, memory.unanswered, plan(facts.view)) == ("3.00 USD", 1, action)


@pytest.mark.parametrize(("batches", "reads"), [(1, 1), (2, 2), (4, 3)])
async def test_a_cloud_whose_answers_cannot_be_read_is_not_asked_for_every_batch(batches: int, reads: int) -> None:
    obj = batch(status=status(*(sent(part) for part in range(1, batches + 1))))
    async with (
        scripted_server() as server,
        Cloud(server.url, "or_key_0123456789", inference_url=server.url, organization_id="org-1") as cloud,
    ):
        server.will(*[HTML] * 4)
        looking, memory = gatherer(cloud), BatchMemory("uid-1")
        facts = await looking.gather(Turn(KEY, "uid-1", NOON, Priority.CHANGE), obj, memory)
    assert isinstance(facts.error, Unreadable)
    assert (facts.status, len(server.targets)) == (obj.status, reads)


async def test_what_is_to_end_is_cancelled_once_while_a_create_without_an_answer_is_searched_for() -> None:
    obj = batch(status=status(sent(1), part(2, inputFileId="file_2", sentAt=NOON)), suspend=True)
    memory = BatchMemory("uid-1", shown={"batch_1_1"})
    empty = Reply(200, json.dumps({"object": "list", "data": [], "has_more": False}).encode())
    async with (
        scripted_server() as server,
        Cloud(server.url, "or_key_0123456789", inference_url=server.url, organization_id="org-1") as cloud,
    ):
        server.will(empty, empty)
        turn, looking = Turn(KEY, "uid-1", NOON, Priority.CHANGE), gatherer(cloud)
        facts = await looking.gather(turn, obj, memory)
        assert (plan(facts.view), facts.note != "") == (Cancel(), True)
        report = report_of(facts, Cancel(), Nothing(), facts.status, unreachable=False)
        assert report is not None
        assert report.unseen, "what became of the create stays unknown"
        memory.cancelled["batch_1_1"] = 0.0
        facts = await looking.gather(turn, obj, memory)
    assert plan(facts.view) == Wait(Reason.SEARCHING)
