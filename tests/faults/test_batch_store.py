"""The S3 server fails during a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults.batch_steps import STATUS
from tests.faults.plans import Plan
from tests.support.faultrules import Action, Answer, Drop, LoseReply, Rule, Side, Truncate

if TYPE_CHECKING:
    from tests.faults.plays import Plays
    from tests.support.s3 import S3Server

pytestmark = pytest.mark.asyncio(loop_scope="session")


def _refusal(status: int, code: str) -> Answer:
    body = f'<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code><Message>not now</Message></Error>'
    return Answer(status, body, (("Content-Type", "application/xml"),))


ACTIONS: dict[str, Action] = {
    "500": _refusal(500, "InternalError"),
    "503": _refusal(503, "SlowDown"),
    "403": _refusal(403, "AccessDenied"),
    "connection cut": Drop(),
    "reply lost": LoseReply(),
    "cut body": Truncate(10),
}
_READ, _TRY, _WRITE = "GET object", "POST uploads", "PUT object"


async def _holds(plays: Plays, store: S3Server, plan: Plan, *, meets: bool = True) -> None:
    played = await plays.holds(plan, meets=meets)
    bucket = next(one.call.namespace for one in played.calls if one.call.operation == STATUS)
    assert await store.uploads(bucket) == []


@pytest.mark.parametrize("what", ["403", "connection cut"])
async def test_the_store_fails_for_a_while_at_everything(batch_plays: Plays, fault_store: S3Server, what: str) -> None:
    rules = tuple(Rule(Side.STORE, operation, ACTIONS[what], times=2) for operation in (_READ, _TRY, _WRITE))
    await _holds(batch_plays, fault_store, Plan(f"bucket {what} for a while", "bucket", rules))


@pytest.mark.parametrize("what", ["reply lost", "500"])
async def test_the_store_fails_between_answers_and_errors(batch_plays: Plays, fault_store: S3Server, what: str) -> None:
    rule = Rule(Side.STORE, _WRITE, ACTIONS[what], subject="out/errors.jsonl")
    await _holds(batch_plays, fault_store, Plan(f"bucket {what} at the errors", "bucket", (rule,)))


@pytest.mark.long
@pytest.mark.parametrize("what", ACTIONS)
@pytest.mark.parametrize("operation", ["GET object", "HEAD object", "POST uploads", "DELETE upload", "PUT object"])
async def test_each_call_may_fail(batch_plays: Plays, operation: str, what: str) -> None:
    rules = tuple(Rule(Side.STORE, operation, ACTIONS[what], nth=nth) for nth in (1, 3))
    await batch_plays.holds(Plan(f"bucket {what} at {operation}", "bucket", rules), meets=False)
