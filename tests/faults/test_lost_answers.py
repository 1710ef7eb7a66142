"""The answer to a create is lost, broken, or not the cloud's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults.plans import Plan, WebhookFault, Word
from tests.faults.scenarios import CLUSTER, POD, SCENARIOS
from tests.support.faultrules import Action, Answer, Delay, Drip, Drop, Hang, LoseReply, Rule, Side, Truncate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from _pytest.mark.structures import ParameterSet

    from tests.faults.plays import Plays

pytestmark = pytest.mark.asyncio(loop_scope="session")

_HTML = "<html><body>a gateway's page</body></html>"
ACTED: dict[str, Action] = {
    "reply lost": LoseReply(),
    "500 though acted": Answer(500, '{"error": "it broke", "code": "INTERNAL"}', acted=True),
    "cut body": Truncate(40),
    "HTML 200": Answer(200, _HTML, acted=True),
    "empty 200": Answer(200, acted=True),
    "empty 204": Answer(204, acted=True),
}
NOT_ACTED: dict[str, Action] = {
    "500": Answer(500, '{"error": "it broke", "code": "INTERNAL"}'),
    "connection dropped": Drop(),
}
HARMLESS: dict[str, Action] = {
    "late": Delay(1),
    "slow drip": Drip(1),
    "429 in seconds": Answer(429, '{"error": "slow down", "code": "RATE_LIMITED"}', (("Retry-After", "1"),)),
    "429 until a date": Answer(
        429, '{"error": "slow down", "code": "RATE_LIMITED"}', (("Retry-After", "Fri, 20 Nov 2020 00:00:00 GMT"),)
    ),
    "429 without a time": Answer(429, '{"error": "slow down", "code": "RATE_LIMITED"}'),
    "429 that is HTML": Answer(429, _HTML),
}


def _some(actions: Mapping[str, Action], *always: str) -> list[ParameterSet]:
    """All of them, of which some are played every time."""
    return [pytest.param(what, marks=() if what in always else pytest.mark.long) for what in actions]


def _plan(scenario: str, what: str, action: Action, word: Word = Word.NOTHING) -> Plan:
    rule = Rule(Side.CLOUD, SCENARIOS[scenario].kind.create, action)
    return Plan(f"{scenario} create {what}", scenario, (rule,), word=word)


@pytest.mark.parametrize("what", _some(ACTED, "reply lost", "500 though acted", "cut body", "HTML 200"))
async def test_a_pod_that_was_created_unheard_is_found_by_its_webhook(plays: Plays, what: str) -> None:
    await plays.holds(_plan("pod", what, ACTED[what]))


@pytest.mark.long
async def test_a_pod_whose_create_is_never_answered_is_found_by_its_webhook(plays: Plays) -> None:
    await plays.holds(_plan("pod", "never answered", Hang(acted=True)))


@pytest.mark.parametrize("what", NOT_ACTED)
async def test_a_pod_whose_create_may_have_failed_waits_for_a_person(plays: Plays, what: str) -> None:
    await plays.holds(_plan("pod", what, NOT_ACTED[what], Word.RETRY_CREATE))


@pytest.mark.parametrize("what", ["reply lost", "500 though acted", "cut body"])
async def test_a_cluster_that_was_created_unheard_is_found_in_the_list(plays: Plays, what: str) -> None:
    await plays.holds(_plan("cluster", what, ACTED[what]))


@pytest.mark.parametrize("what", NOT_ACTED)
async def test_a_cluster_whose_create_failed_is_made_when_the_list_lacks_it(plays: Plays, what: str) -> None:
    await plays.holds(_plan("cluster", what, NOT_ACTED[what]))


async def test_a_pod_with_its_answer_and_its_webhooks_lost_is_never_doubled(plays: Plays) -> None:
    rule = Rule(Side.CLOUD, POD.create, LoseReply())
    lost = (WebhookFault("lose"),)
    await plays.holds(Plan("pod create and webhooks lost", "pod", (rule,), lost, Word.ADOPT_ID))


@pytest.mark.parametrize("what", _some(HARMLESS, "429 in seconds", "slow drip"))
async def test_a_create_that_is_late_or_turned_away_is_sent_until_it_lands(plays: Plays, what: str) -> None:
    await plays.holds(_plan("pod", what, HARMLESS[what]))


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_a_termination_whose_answer_is_lost_ends_the_resource(plays: Plays, scenario: str) -> None:
    rule = Rule(Side.CLOUD, SCENARIOS[scenario].kind.terminate, LoseReply())
    await plays.holds(Plan(f"{scenario} termination's reply lost", scenario, (rule,)))


@pytest.mark.parametrize("operation", [POD.look[0], CLUSTER.look[0], CLUSTER.look[1]])
async def test_one_404_is_not_taken_for_an_end(plays: Plays, operation: str) -> None:
    scenario = "pod" if operation in POD.look else "cluster"
    flap = Answer(404, '{"error": "There is no such thing.", "code": "NOT_FOUND"}')
    rules = tuple(Rule(Side.CLOUD, operation, flap, nth=nth) for nth in (1, 3))
    name = operation.replace("{id}", "id").replace("/", " ")
    await plays.holds(Plan(f"{scenario} 404 at {name}", scenario, rules), meets=False)
