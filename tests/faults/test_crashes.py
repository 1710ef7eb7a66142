"""The operator is killed in the middle of a create, or of a delete, and started again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults.plans import Plan, WebhookFault, Word
from tests.faults.scenarios import CLUSTER, POD, SCENARIOS
from tests.support.faultrules import Deed, Hold, Moment, Rule, Side

if TYPE_CHECKING:
    from tests.faults.plays import Plays

pytestmark = pytest.mark.asyncio(loop_scope="session")

_LOST = (WebhookFault("lose"),)


def _killed(when: Moment, operation: str, side: Side = Side.CLOUD, nth: int = 1) -> tuple[Rule, ...]:
    return (Rule(side, operation, Hold(when, Deed.KILL_OPERATOR), nth=nth),)


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_killed_after_the_create_was_acted_on_and_before_its_answer(plays: Plays, scenario: str) -> None:
    rules = _killed(Moment.ACTED, SCENARIOS[scenario].kind.create)
    await plays.holds(Plan(f"{scenario} killed after the create was acted on", scenario, rules))
    assert plays.stage.restarts == 1


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_killed_after_the_answer_to_the_create_and_before_status_was_written(plays: Plays, scenario: str) -> None:
    rules = _killed(Moment.DELIVERED, SCENARIOS[scenario].kind.create)
    await plays.holds(Plan(f"{scenario} killed after the create was answered", scenario, rules))


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_killed_after_the_id_was_written_to_status(plays: Plays, scenario: str) -> None:
    plural = {"pod": "gpupods", "cluster": "gpuclusters"}[scenario]
    rules = _killed(Moment.ACTED, f"PATCH {plural}/status", Side.KUBE)
    await plays.holds(Plan(f"{scenario} killed after its id was written", scenario, rules))


async def test_a_pod_whose_create_was_never_sent_waits_for_a_person_and_is_made_once(plays: Plays) -> None:
    rules = _killed(Moment.BEFORE, POD.create)
    await plays.holds(Plan("pod killed before the create", "pod", rules, word=Word.RETRY_CREATE))


async def test_a_cluster_whose_create_was_never_sent_is_made_once_by_itself(plays: Plays) -> None:
    await plays.holds(Plan("cluster killed before the create", "cluster", _killed(Moment.BEFORE, CLUSTER.create)))


async def test_a_pod_that_nobody_tells_of_is_adopted_on_a_persons_word(plays: Plays) -> None:
    rules = _killed(Moment.ACTED, POD.create)
    await plays.holds(Plan("pod killed and webhooks lost", "pod", rules, _LOST, Word.ADOPT_ID))


async def test_a_cluster_is_found_in_the_list_where_webhooks_are_lost(plays: Plays) -> None:
    rules = _killed(Moment.ACTED, CLUSTER.create)
    await plays.holds(Plan("cluster killed and webhooks lost", "cluster", rules, _LOST))


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("when", [Moment.BEFORE, Moment.ACTED])
async def test_killed_while_it_terminates(plays: Plays, scenario: str, when: Moment) -> None:
    rules = _killed(when, SCENARIOS[scenario].kind.terminate)
    await plays.holds(Plan(f"{scenario} killed {when} its termination", scenario, rules))


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_told_to_stop_while_the_create_is_under_way(plays: Plays, scenario: str) -> None:
    rule = Rule(Side.CLOUD, SCENARIOS[scenario].kind.create, Hold(Moment.ACTED, Deed.TERMINATE_OPERATOR))
    await plays.holds(Plan(f"{scenario} told to stop during the create", scenario, (rule,)))
