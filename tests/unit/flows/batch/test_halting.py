"""What an action ends: each running batch in the cloud, and long work that is no longer wanted."""

import asyncio
from typing import Any, cast

import pytest

from relay_client import Cloud, CloudUnavailable, Conflict, NotFound
from relay_operator.api.conditions import Reason
from relay_operator.api.inferencebatch import InferenceBatchStatus
from relay_operator.api.meta import CreateIntent, ObjectKey
from relay_operator.engine.account import AccountReady
from relay_operator.engine.actions import Nothing, Wait
from relay_operator.engine.cache import Cache
from relay_operator.engine.identity import Installation
from relay_operator.engine.queue import Queue
from relay_operator.engine.unclaimed_ids import UnclaimedIds
from relay_operator.flows.batch import actions
from relay_operator.flows.batch.act import Actor
from relay_operator.flows.batch.actions import Action, Work
from relay_operator.flows.batch.facts import BatchMemory, Facts, running, running_unseen
from relay_operator.flows.batch.places import Places
from relay_operator.flows.batch.plan import Sight, Transfer, View
from relay_operator.flows.batch.result import CancelRefused, Result, WorkResult
from relay_operator.flows.batch.transfers import Job, Transfers
from tests.unit.client.scripted import Drop, Reply, Step, scripted_server
from tests.unit.engine.apiserver import Json
from tests.unit.flows.batch.examples import NOON, TOKEN, batch, sent, status

ACCOUNT = ObjectKey("CloudAccount", "ns", "default")
KEY = ObjectKey("InferenceBatch", "ns", "nightly")
CANCELLED = Reply(200, b'{"id":"batch_1_1","status":"cancelling"}')
LIST = Reply(200, b'{"object":"list","data":[],"has_more":false}')


def _refusal(code: int) -> Reply:
    return Reply(code, b'{"error":{"message":"no","type":"error","code":null}}')


class _Accounts:
    """Is told of refusals."""

    def failed(self, account: AccountReady, error: Exception, whose: ObjectKey | None = None) -> None:
        pass


_RUNNING = status(sent(1), sent(2), sent(3))


async def _acted(
    action: Action,
    memory: BatchMemory,
    transfers: Transfers,
    *script: Step,
    of: InferenceBatchStatus = _RUNNING,
    sight: Sight = Sight.CLEAR,
    changed: bool = False,
) -> tuple[Result, list[str]]:
    """The result of the action for a batch with this status, and what the cloud was asked.

    `changed`: people have changed it since it was decided.
    """
    nothing = cast("Any", None)
    obj = batch(status=of)
    cache = Cache()
    metadata = cast("Json", obj.metadata.model_dump(mode="json", exclude_none=True))
    cache.put(KEY, {"kind": "InferenceBatch", "metadata": {**metadata, "generation": 7} if changed else metadata})
    intent = CreateIntent(token=TOKEN, name="nightly", attempt=1, spec_hash="", started_at=NOON)
    async with scripted_server() as server:
        server.will(*script or [_refusal(500)])
        async with Cloud(server.url, "or_key_0123456789", inference_url=server.url, organization_id="org-1") as cloud:
            account = AccountReady(ACCOUNT, cloud, "org-1", UnclaimedIds(), False, True)
            facts = Facts(KEY, obj, NOON, account, View(sight=sight), obj.status, intent)
            actor = Actor(
                accounts=cast("Any", _Accounts()),
                transfers=transfers,
                sending=nothing,
                publishing=nothing,
                destinations=nothing,
                clock=lambda: 7.0,
                new_token=lambda: TOKEN,
                installation=Installation(),
                leading=lambda: True,
                cache=cache,
            )
            return await actor.act(facts, action, memory, nothing), server.targets


def _transfers() -> Transfers:
    return Transfers(Queue[ObjectKey](lambda: 0.0), Places(1))


@pytest.mark.parametrize("first", [500, 403, 400, 429, 409])
async def test_a_batch_that_cannot_be_cancelled_does_not_keep_the_others_running(first: int) -> None:
    memory = BatchMemory("uid-1")
    came, asked = await _acted(actions.Cancel(), memory, _transfers(), _refusal(first), CANCELLED, CANCELLED)
    assert asked == [f"POST /v1/batches/batch_1_{number}/cancel" for number in (1, 2, 3)]
    assert memory.cancelled == {"batch_1_2": 7.0, "batch_1_3": 7.0}
    assert isinstance(came, CancelRefused)
    assert came.error.status == first


@pytest.mark.parametrize("reply", [CANCELLED, _refusal(409)])
async def test_a_batch_that_the_cloud_does_not_find_is_told_once_to_end_since_it_may_run(reply: Reply) -> None:
    memory = BatchMemory("uid-1")
    lost = status(sent(1, state="gone"), sent(2, state="completed"))
    came, asked = await _acted(actions.Cancel(), memory, _transfers(), reply, of=lost)
    assert came == Nothing()
    assert asked == ["POST /v1/batches/batch_1_1/cancel"]
    assert running(lost, memory) == []


async def test_a_cloud_that_does_not_answer_is_not_asked_about_every_batch() -> None:
    came, asked = await _acted(actions.Cancel(), BatchMemory("uid-1"), _transfers(), Drop())
    assert len(asked) == 2
    assert isinstance(came, CancelRefused)


@pytest.mark.parametrize(
    ("sight", "code", "again"),
    [
        (Sight.BLIND, 429, True),
        (Sight.BLIND, 503, False),
        (Sight.BLIND, 409, False),
        (Sight.UNSURE, 503, True),
        (Sight.UNSURE, 409, False),
    ],
)
async def test_what_cannot_be_looked_at_is_told_to_end_until_the_cloud_heard_it(
    sight: Sight, code: int, *, again: bool
) -> None:
    memory = BatchMemory("uid-1", shown={"batch_1_1", "batch_1_2"})
    _, asked = await _acted(actions.Cancel(), memory, _transfers(), _refusal(code), CANCELLED, sight=sight)
    assert asked == [f"POST /v1/batches/batch_1_{number}/cancel" for number in (1, 2)]
    assert [part.batch_id for part in running_unseen(_RUNNING, memory)] == ["batch_1_1"] * again


async def test_what_cannot_be_looked_at_is_told_to_end_though_people_changed_it_the_moment_before() -> None:
    memory = BatchMemory("uid-1", shown={"batch_1_1"})
    _, asked = await _acted(actions.Cancel(), memory, _transfers(), CANCELLED, sight=Sight.BLIND, changed=True)
    assert (asked, len(running_unseen(_RUNNING, memory))) == ([], 1)


async def test_of_several_refusals_a_conflict_is_told_last() -> None:
    script = (_refusal(409), _refusal(503), _refusal(409))
    came, _ = await _acted(actions.Cancel(), BatchMemory("uid-1"), _transfers(), *script)
    assert isinstance(came, CancelRefused)
    assert isinstance(came.error, CloudUnavailable)
    came, _ = await _acted(actions.Cancel(), BatchMemory("uid-1"), _transfers(), _refusal(409))
    assert isinstance(came, CancelRefused)
    assert isinstance(came.error, Conflict)


async def test_a_batch_that_the_cloud_does_not_have_counts_as_cancelled_only_with_access_to_batches() -> None:
    memory, script = BatchMemory("uid-1"), (_refusal(404), LIST, CANCELLED, CANCELLED)
    came, asked = await _acted(actions.Cancel(), memory, _transfers(), *script)
    assert (came, len(memory.cancelled)) == (Nothing(), 3)
    assert asked[1] == "GET /v1/batches?limit=1"
    memory = BatchMemory("uid-1")
    came, _ = await _acted(actions.Cancel(), memory, _transfers(), _refusal(404))
    assert isinstance(came, CancelRefused)
    assert isinstance(came.error, NotFound)
    assert memory.cancelled == {}


@pytest.mark.parametrize("clean", [True, False], ids=["this process's uploads are known", "a new process"])
async def test_while_paused_no_long_work_goes_on(*, clean: bool) -> None:
    async def forever() -> WorkResult:
        await asyncio.Event().wait()
        raise AssertionError

    transfers, memory, job = (
        _transfers(),
        BatchMemory("uid-1", clean=clean),
        Job("uid-1", Work.PUBLISH, 1, batch().spec.output),
    )
    transfers.start(KEY, job, "ns/default", forever)
    assert transfers.state(KEY, job) is Transfer.BUSY
    await _acted(Wait(Reason.PAUSED), memory, transfers)
    assert transfers.state(KEY, job) is Transfer.IDLE
    assert not memory.clean
    await transfers.close()
