"""The operator is killed or gets SIGTERM during a create, and is restarted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults.every_scenario import SCENARIOS
from tests.faults.plans import Plan, WebhookFault, Word
from tests.faults.scenarios import CLUSTER, POD, WORKLOADS
from tests.support.faultrules import Deed, Hold, Moment, Rule, Side

if TYPE_CHECKING:
    from tests.faults.plays import Plays

pytestmark = pytest.mark.asyncio(loop_scope="session")

_LOST = (WebhookFault("lose"),)


def _killed(when: Moment, operation: str, side: Side = Side.CLOUD, nth: int = 1) -> tuple[Rule, ...]:
    return (Rule(side, operation, Hold(when, Deed.KILL_OPERATOR), nth=nth),)


async def test_a_pod_whose_create_was_never_sent_waits_for_a_person_and_is_made_once(plays: Plays) -> None:
    rules = _killed(Moment.BEFORE, POD.create)
    await plays.holds(Plan("pod killed before the create", "pod", rules, word=Word.RETRY_CREATE))


async def test_a_pod_that_no_webhook_tells_of_is_adopted_by_itself_or_on_a_persons_word(plays: Plays) -> None:
    rules = _killed(Moment.ACTED, POD.create)
    await plays.holds(Plan("pod killed and webhooks lost", "pod", rules, _LOST, Word.AS_FOUND))


async def test_a_cluster_is_found_in_the_list_where_webhooks_are_lost(plays: Plays) -> None:
    rules = _killed(Moment.ACTED, CLUSTER.create)
    await plays.holds(Plan("cluster killed and webhooks lost", "cluster", rules, _LOST))


@pytest.mark.parametrize("scenario", WORKLOADS)
async def test_told_to_stop_while_the_create_is_under_way(plays: Plays, scenario: str) -> None:
    rule = Rule(Side.CLOUD, SCENARIOS[scenario].kind.create, Hold(Moment.ACTED, Deed.TERMINATE_OPERATOR))
    await plays.holds(Plan(f"{scenario} told to stop during the create", scenario, (rule,)))
