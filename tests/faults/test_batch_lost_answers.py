"""The cloud's answers are lost, broken, late or from someone else, and its lists lag."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.batch_side import CREATE_BATCH, DELETE_FILE, UPLOAD
from tests.faults.batch_steps import DOWNLOAD, LIST_BATCHES, LIST_FILES, LOOK, READ_FILE
from tests.faults.plans import CloudFault, Plan
from tests.support.faultrules import Action, Answer, Drip, Drop, LoseReply, Rule, Side, Truncate

if TYPE_CHECKING:
    from tests.faults.plays import Plays

pytestmark = pytest.mark.asyncio(loop_scope="session")

_HTML = "<html><body>a gateway's page</body></html>"
_BROKEN = '{"error": {"message": "it broke", "type": "server_error", "code": null}}'
_SLOW_DOWN = '{"error": {"message": "slow down", "type": "rate_limit_error", "code": "rate_limit_exceeded"}}'
_MISSING = '{"error": {"message": "There is no such thing.", "type": "invalid_request_error", "code": null}}'
ACTIONS: dict[str, Action] = {
    "reply lost": LoseReply(),
    "500 though acted": Answer(500, _BROKEN, acted=True),
    "cut body": Truncate(40),
    "HTML 200": Answer(200, _HTML, acted=True),
    "empty 200": Answer(200, acted=True),
    "500": Answer(500, _BROKEN),
    "connection dropped": Drop(),
    "slow drip": Drip(1),
    "429 in seconds": Answer(429, _SLOW_DOWN, (("Retry-After", "1"),)),
    "429 until a date": Answer(429, _SLOW_DOWN, (("Retry-After", "Fri, 20 Nov 2020 00:00:00 GMT"),)),
    "429 without a time": Answer(429, _SLOW_DOWN),
    "HTML 502": Answer(502, _HTML),
}
_CALLS = {
    "create": CREATE_BATCH,
    "upload": UPLOAD,
    "look": LOOK,
    "list of batches": LIST_BATCHES,
    "list of files": LIST_FILES,
    "file": READ_FILE,
    "download": DOWNLOAD,
    "deletion": DELETE_FILE,
}
_FLAP = Answer(404, _MISSING)


def _rule(operation: str, action: Action, nth: int = 1, times: int = 1) -> Rule:
    return Rule(Side.INFERENCE, operation, action, nth=nth, times=times)


@pytest.mark.parametrize("what", ["reply lost", "cut body", "HTML 200", "500"])
async def test_a_create_is_acted_on_once_whatever_is_answered(batch_plays: Plays, what: str) -> None:
    rules = (_rule(CREATE_BATCH, ACTIONS[what]),)
    await batch_plays.holds(Plan(f"batch create {what}", "batch", rules))


@pytest.mark.parametrize("what", ["reply lost", "HTML 200"])
async def test_an_upload_is_found_or_sent_again(batch_plays: Plays, what: str) -> None:
    rules = tuple(_rule(UPLOAD, ACTIONS[what], nth) for nth in (1, 3))
    await batch_plays.holds(Plan(f"batch uploads {what}", "batch", rules))


@pytest.mark.parametrize("what", ["cut body", "HTML 200"])
async def test_what_is_read_badly_is_read_again(batch_plays: Plays, what: str) -> None:
    """An upload's answer is lost too, since the operator lists files only if an upload may have been acted on."""
    reads = (LOOK, LIST_FILES, READ_FILE, DOWNLOAD)
    once = [_rule(operation, ACTIONS[what]) for operation in reads]
    later = [_rule(operation, ACTIONS[what], nth=4) for operation in (READ_FILE, DOWNLOAD)]
    rules = (_rule(UPLOAD, LoseReply()), *once, *later)
    await batch_plays.holds(Plan(f"batch reads {what}", "batch", rules))


@pytest.mark.parametrize("operation", [LOOK, READ_FILE, DOWNLOAD])
async def test_one_404_is_not_taken_for_a_loss(batch_plays: Plays, operation: str) -> None:
    rules = tuple(_rule(operation, _FLAP, nth) for nth in (1, 3, 5))
    name = operation.removeprefix("GET /v1/").replace("/", " ")
    await batch_plays.holds(Plan(f"batch 404 at {name}", "batch", rules), meets=False)


async def test_a_file_that_seems_to_be_gone_is_not_left_behind(batch_plays: Plays) -> None:
    rules = (_rule(CREATE_BATCH, _FLAP), _rule(READ_FILE, _FLAP))
    await batch_plays.holds(Plan("batch 404 at create and file", "batch", rules))


async def test_everything_is_slow_or_turned_away_for_a_while(batch_plays: Plays) -> None:
    busy = ACTIONS["429 in seconds"]
    rules = tuple(_rule(operation, busy, times=2) for operation in (UPLOAD, CREATE_BATCH, LOOK, DOWNLOAD, DELETE_FILE))
    await batch_plays.holds(Plan("batch 429 everywhere", "batch", rules))


async def test_lists_and_reads_that_lag_are_not_believed_too_soon(batch_plays: Plays) -> None:
    reads = (LIST_BATCHES, LIST_FILES, LOOK, READ_FILE, DOWNLOAD)
    lag = tuple(CloudFault(operation, "staleSeconds", 20) for operation in reads)
    rules = (_rule(UPLOAD, LoseReply()), _rule(CREATE_BATCH, LoseReply(), nth=2))
    await batch_plays.holds(Plan("batch lists lag", "batch", rules, cloud=lag))


@pytest.mark.long
@pytest.mark.parametrize("what", ACTIONS)
@pytest.mark.parametrize("call", _CALLS)
async def test_every_call_may_be_answered_badly(batch_plays: Plays, call: str, what: str) -> None:
    rules = tuple(_rule(_CALLS[call], ACTIONS[what], nth) for nth in (1, 3))
    await batch_plays.holds(Plan(f"batch each {call} {what}", "batch", rules), meets=False)
