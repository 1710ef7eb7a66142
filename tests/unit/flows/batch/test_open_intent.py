"""`kubectl replace` removes the intent by which batches are searched for after status was lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from relay_operator.api.conditions import Reason
from relay_operator.api.meta import CREATE_INTENT, CreateIntent
from relay_operator.engine.account import AccountWaiting
from relay_operator.engine.cache import Cache
from relay_operator.engine.confirmation import ConfirmationDelays
from relay_operator.engine.flow import Turn
from relay_operator.engine.identity import Installation
from relay_operator.engine.intent import cloud_name
from relay_operator.engine.queue import Priority
from relay_operator.flows.batch.flow import BatchFlow
from relay_operator.flows.batch.gather import Gatherer
from relay_operator.flows.batch.plan import Phase
from tests.unit.flows.batch.acting import KEY
from tests.unit.flows.batch.examples import LONGEST_WAIT, NOON, TOKEN, batch, status

if TYPE_CHECKING:
    from relay_operator.api.inferencebatch import InferenceBatchStatus

NAME = cloud_name("ns", "nightly", "uid-1", "", 1)
INTENT = CreateIntent(token=TOKEN, name=NAME, attempt=1, spec_hash="", started_at=NOON)
OTHER = INTENT.model_copy(update={"token": "an0ther"})
TURN = Turn(KEY, "uid-1", NOON, Priority.POLL)


class _Accounts:
    """Has none that can be used now."""

    async def resolve(self, namespace: str, ref: object, *, ending: bool = False) -> AccountWaiting:
        return AccountWaiting(Reason.WAITING_FOR_ACCOUNT, "later")


def _flow() -> BatchFlow:
    nobody, delays = cast("Any", None), ConfirmationDelays()
    accounts = cast("Any", _Accounts())
    gatherer = Gatherer(accounts, Cache(), nobody, nobody, lambda: 0.0, delays, Installation(), LONGEST_WAIT)
    return BatchFlow(gatherer, nobody, nobody, nobody, Installation(), 5.0, 3)


def _said(text: str) -> dict[str, str]:
    return {CREATE_INTENT: text}


@pytest.mark.parametrize(
    ("left", "guarded"),
    [({}, INTENT), (_said("{}"), INTENT), (_said(OTHER.to_annotation()), OTHER)],
    ids=["removed", "spoiled", "another one"],
)
async def test_an_intent_that_is_searched_for_is_put_back(left: dict[str, str], guarded: CreateIntent) -> None:
    flow, memory = _flow(), _flow().memory("uid-1")
    await flow.gather(TURN, batch(annotations=_said(INTENT.to_annotation())), memory)
    for _ in range(2):
        facts = await flow.gather(TURN, batch(annotations=left), memory)
        assert facts.view.phase is Phase.ACTIVE
        assert flow.intent(facts) == guarded


@pytest.mark.parametrize("told", [None, status()], ids=["a process that saw none", "recorded by now"])
async def test_nothing_is_remembered_without_a_search(told: InferenceBatchStatus | None) -> None:
    flow, memory = _flow(), _flow().memory("uid-1")
    await flow.gather(TURN, batch(annotations=_said(INTENT.to_annotation()) if told else {}, status=told), memory)
    facts = await flow.gather(TURN, batch(), memory)
    assert facts.view.phase is Phase.NEW
    assert flow.intent(facts) is None
