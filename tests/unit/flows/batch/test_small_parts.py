"""Names in the cloud, places of the output, progress, and long work beside the queue."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from relay_operator.api.conditions import Condition, Reason
from relay_operator.api.inferencebatch import RequestCounts
from relay_operator.api.inferencebatch_spec import TRANSIENT_CODES, RecordRetry
from relay_operator.api.meta import CreateIntent, ObjectKey
from relay_operator.engine.queue import Queue
from relay_operator.flows.batch.actions import Work
from relay_operator.flows.batch.destinations import addresses
from relay_operator.flows.batch.flow import is_progress_alone
from relay_operator.flows.batch.names import OBJECT, TAG, PartTag, file_name, file_prefix, metadata_of
from relay_operator.flows.batch.places import Places, Share
from relay_operator.flows.batch.plan import Transfer
from relay_operator.flows.batch.result import Cleared, WorkResult, WorkTroubled
from relay_operator.flows.batch.selection import retry_policy
from relay_operator.flows.batch.throughput import LeastSpeed, counted
from relay_operator.flows.batch.transfers import Job, Transfers
from relay_operator.records.results import Failure
from tests.support.eventually import PATIENCE_SECONDS
from tests.unit.flows.batch.acting import KEY
from tests.unit.flows.batch.examples import NOON, batch, seen, sent, status

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from relay_operator.api.inferencebatch import InferenceBatchStatus
    from relay_operator.flows.batch.transfers import LongWork

INTENT = CreateIntent(token="t0ken", name="ns-nightly-0123456789", attempt=1, spec_hash="", started_at=NOON)


def test_a_batch_is_known_by_its_metadata_alone() -> None:
    tag = PartTag("t0ken", 2, 3, 7, 4)
    assert PartTag.of(seen(metadata={"team": "a", TAG: str(tag)}), "t0ken") == tag
    assert PartTag.of(seen(metadata={TAG: str(tag)}), "other") is None


def test_people_see_in_the_clouds_list_whose_batch_it_is() -> None:
    tag = PartTag("t0ken", 1, 1, 1, 1)
    told = metadata_of({"team": "a"}, KEY, tag)
    assert told == {"team": "a", OBJECT: "ns/nightly", TAG: str(tag)}
    longest = ObjectKey(KEY.kind, "n" * 63, "n" * 253)
    assert max(map(len, metadata_of(None, longest, tag).values())) <= 512


EDITED = ["", "t0ken", "t0ken/1/2/3", "t0ken/1/2/3/x", "t0ken/1/2/3/4/5", "t0ken/-1/2/3/4"]
ENDLESS = ["t0ken/1/1/1000000000/1", "t0ken/129/1/1/1", "t0ken/0/1/1/1", "t0ken/1/2/1/1", f"t0ken/{'9' * 5000}/1/1/1"]


@pytest.mark.parametrize("text", EDITED + ENDLESS)
def test_metadata_that_somebody_edited_is_nobodys(text: str) -> None:
    assert PartTag.of(seen(metadata={TAG: text}), "t0ken") is None
    assert PartTag.of(seen(), "t0ken") is None


def test_files_of_an_object_share_their_beginning_with_no_other_objects() -> None:
    assert file_name(INTENT, 2, 3) == "ns-nightly-0123456789.t0ken.2.3.jsonl"
    assert file_name(INTENT, 2, 3).startswith(file_prefix(INTENT))
    assert not file_name(INTENT.model_copy(update={"token": "t0ken2"}), 2, 3).startswith(file_prefix(INTENT))


@pytest.mark.parametrize(
    ("url", "answers", "errors"),
    [
        ("s3://b/out", "s3://b/out/output.jsonl", "s3://b/out/errors.jsonl"),
        ("s3://b/out/", "s3://b/out/output.jsonl", "s3://b/out/errors.jsonl"),
        ("s3://b", "s3://b/output.jsonl", "s3://b/errors.jsonl"),
        ("az://c/x/answers.jsonl", "az://c/x/answers.jsonl", "az://c/x/answers.errors.jsonl"),
    ],
)
def test_an_output_names_a_folder_or_the_object_for_the_answers(url: str, answers: str, errors: str) -> None:
    assert addresses(url)[:2] == (answers, errors)


def test_the_codes_of_a_policy_are_statuses_where_they_are_numbers() -> None:
    chosen = retry_policy(RecordRetry(codes=["429", "tool_timeout"]))
    assert chosen.retries(Failure(None, 429))
    assert chosen.retries(Failure("tool_timeout", None))
    assert not chosen.retries(Failure(None, 503))
    assert not chosen.retries(Failure("batch_expired", None))


def test_the_default_of_the_page_is_the_default_of_the_code() -> None:
    told, meant = retry_policy(RecordRetry(codes=list(TRANSIENT_CODES))), retry_policy(None)
    assert told == meant


def _running(completed: int, *, reason: str = "Running", state: str = "in_progress") -> InferenceBatchStatus:
    counts = RequestCounts(total=10, completed=completed)
    ready = Condition(type="Ready", status="True", reason=reason, message=str(completed), last_transition_time=NOON)
    return status(sent(state=state, completed=completed), request_counts=counts, conditions=[ready])


def test_progress_alone_may_wait_and_everything_else_may_not() -> None:
    before = _running(1)
    assert is_progress_alone(before, _running(2))
    changed = _running(2, reason="Publishing")
    assert not is_progress_alone(before, changed)
    over = _running(10, state="completed")
    assert not is_progress_alone(before, over)
    ended = _running(2).model_copy(update={"completion_time": NOON})
    assert not is_progress_alone(before, ended)


def _job(work: Work = Work.SEND, number: int = 1, uid: str = "uid") -> Job:
    return Job(uid, work, number, batch().spec.output)


async def _done() -> WorkResult:
    return Cleared()


async def _forever() -> WorkResult:
    await asyncio.Event().wait()
    return Cleared()


async def test_the_end_of_long_work_wakes_its_object_and_its_result_stays_until_it_is_dropped() -> None:
    queue = Queue[ObjectKey](time.monotonic)
    transfers = Transfers(queue, Places(1))
    assert transfers.state(KEY, _job()) is Transfer.IDLE
    transfers.start(KEY, _job(), "ns/default", _done)
    assert transfers.state(KEY, _job()) is Transfer.BUSY
    taken = await queue.take()
    assert taken.key == KEY
    assert transfers.state(KEY, _job()) is Transfer.DONE
    assert transfers.result(KEY) == Cleared()
    assert transfers.state(KEY, _job(number=2)) is Transfer.IDLE, "another round's result is not this one's"
    transfers.drop(KEY)
    assert transfers.state(KEY, _job()) is Transfer.IDLE


async def test_long_work_is_bounded_and_what_waits_gets_its_turn() -> None:
    queue = Queue[ObjectKey](time.monotonic)
    transfers = Transfers(queue, Places(1))
    other = ObjectKey("InferenceBatch", "ns", "other")
    transfers.start(KEY, _job(), "ns/default", _forever)
    transfers.start(other, _job(uid="other"), "ns/default", _done)
    await asyncio.sleep(0)
    assert transfers.state(other, _job(uid="other")) is Transfer.BUSY
    transfers.drop(KEY)
    assert (await queue.take()).key == other


def _key(namespace: str, number: int) -> ObjectKey:
    return ObjectKey("InferenceBatch", namespace, f"b{number}")


def _holding(transfers: Transfers, account: str, *namespaces: str) -> None:
    """Four jobs without an end of each namespace."""
    for namespace in namespaces:
        for number in range(4):
            transfers.start(_key(namespace, number), _job(uid=f"{namespace}-{number}"), account, _forever)


@pytest.mark.parametrize(
    ("held", "namespace", "account"),
    [
        (("slow",), "quick", "shared"),
        (("slow", "slow-too"), "quick", "own"),
        (("slow", "slow-too", "slow-again"), "quick", "own"),
    ],
)
async def test_slow_work_of_one_namespace_or_account_leaves_places_to_the_others(
    held: tuple[str, ...], namespace: str, account: str
) -> None:
    queue = Queue[ObjectKey](time.monotonic)
    transfers = Transfers(queue, Places(4))
    _holding(transfers, "shared", *held)
    await asyncio.sleep(0)
    for number in range(3):
        transfers.start(_key(namespace, number), _job(uid=f"quick-{number}"), account, _done)
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert {(await queue.take()).key.namespace for _ in range(3)} == {namespace}
    await transfers.close()
    assert (transfers.places._running, transfers.places.wanted) == ([], False)


async def test_who_has_fewest_places_goes_first() -> None:
    places, order = Places(2), asyncio.Queue[str]()

    async def hold(namespace: str, account: str, until: asyncio.Event) -> None:
        async with places.one(Share(namespace, account)):
            order.put_nowait(namespace)
            await until.wait()

    shares = [("a", "x"), ("b", "x"), ("b", "x"), ("a", "x"), ("c", "y")]
    ends = [asyncio.Event() for _ in shares]
    async with asyncio.TaskGroup() as group:
        for (namespace, account), end in zip(shares, ends, strict=True):
            group.create_task(hold(namespace, account, end))
        assert [await order.get() for _ in range(2)] == ["a", "b"]
        ends[0].set()
        assert await order.get() == "c"
        for end in ends:
            end.set()
    assert {await order.get() for _ in range(2)} == {"a", "b"}


async def test_what_moves_next_to_nothing_gives_its_place_to_those_who_wait() -> None:
    queue = Queue[ObjectKey](time.monotonic)
    transfers = Transfers(queue, Places(1), LeastSpeed(1000, 0.01))
    ended = asyncio.Event()

    async def trickle() -> WorkResult:
        try:
            async for _ in counted(_pieces(1)):
                await asyncio.sleep(0.001)
        finally:
            ended.set()
        return Cleared()

    transfers.start(KEY, _job(), "ns/default", trickle)
    with pytest.raises(TimeoutError):  # nobody waits: it may go on
        async with asyncio.timeout(0.1):
            await ended.wait()
    other = _key("another", 1)
    transfers.start(other, _job(uid="other"), "another/default", _done)
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert {(await queue.take()).key for _ in "ab"} == {KEY, other}
    came = transfers.result(KEY)
    assert isinstance(came, WorkTroubled)
    assert (came.reason, came.stalled) == (Reason.WAITING_FOR_RETRY, False)
    assert ended.is_set()


async def test_what_moves_enough_keeps_its_place() -> None:
    queue = Queue[ObjectKey](time.monotonic)
    transfers = Transfers(queue, Places(1), LeastSpeed(1, 0.01))
    enough = asyncio.Event()

    async def flow() -> WorkResult:
        count = 0
        async for _ in counted(_pieces(1000)):
            await asyncio.sleep(0)
            count += 1
            if count == 10_000:
                enough.set()
        return Cleared()

    transfers.start(KEY, _job(), "ns/default", flow)
    other = _key("another", 1)
    transfers.start(other, _job(uid="other"), "another/default", _done)
    async with asyncio.timeout(PATIENCE_SECONDS):
        await enough.wait()
    assert transfers.state(KEY, _job()) is Transfer.BUSY
    transfers.drop(KEY)
    assert (await queue.take()).key == other


async def _pieces(size: int) -> AsyncIterator[bytes]:
    while True:
        yield bytes(size)


async def test_other_work_for_the_same_object_drops_what_was_under_way() -> None:
    transfers = Transfers(Queue[ObjectKey](time.monotonic), Places(1))
    transfers.start(KEY, _job(), "ns/default", _forever)
    transfers.start(KEY, _job(Work.PUBLISH), "ns/default", _forever)
    assert transfers.state(KEY, _job()) is Transfer.IDLE
    assert transfers.state(KEY, _job(Work.PUBLISH)) is Transfer.BUSY
    await transfers.close()
    assert transfers.state(KEY, _job(Work.PUBLISH)) is Transfer.IDLE


async def test_nothing_runs_any_more_once_all_long_work_is_closed() -> None:
    running: set[str] = set()
    begun = asyncio.Semaphore(0)

    def slow_to_end(name: str, turns: int) -> LongWork:
        async def work() -> WorkResult:
            running.add(name)
            begun.release()
            try:
                return await _forever()
            finally:
                for _ in range(turns):
                    await asyncio.sleep(0)
                running.remove(name)

        return work

    transfers = Transfers(Queue[ObjectKey](time.monotonic), Places(4))
    other = KEY._replace(namespace="other")
    transfers.start(KEY, _job(), "ns/default", slow_to_end("dropped", 20))
    transfers.start(other, _job(uid="other"), "other/default", slow_to_end("under way", 1))
    async with asyncio.timeout(PATIENCE_SECONDS):
        await begun.acquire()
        await begun.acquire()
    transfers.drop(KEY)
    await transfers.close()
    assert running == set()


async def test_a_mistake_in_long_work_is_logged_and_tried_again_later(caplog: pytest.LogCaptureFixture) -> None:
    async def mistaken() -> WorkResult:
        raise ZeroDivisionError

    queue = Queue[ObjectKey](time.monotonic)
    transfers = Transfers(queue, Places(1))
    transfers.start(KEY, _job(), "ns/default", mistaken)
    await queue.take()
    came = transfers.result(KEY)
    assert isinstance(came, WorkTroubled)
    assert came.reason is Reason.WAITING_FOR_RETRY
    assert "ZeroDivisionError" in caplog.text


async def test_long_work_that_is_cut_off_from_inside_wakes_its_object_too() -> None:
    async def cut_off() -> WorkResult:
        raise asyncio.CancelledError

    queue = Queue[ObjectKey](time.monotonic)
    transfers = Transfers(queue, Places(1))
    transfers.start(KEY, _job(), "ns/default", cut_off)
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert (await queue.take()).key == KEY
    assert transfers.state(KEY, _job()) is Transfer.DONE
    assert isinstance(transfers.result(KEY), WorkTroubled)
