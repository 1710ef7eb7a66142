"""The answer to a create is lost, broken, or from someone else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults.every_scenario import SCENARIOS
from tests.faults.plans import Plan, WebhookFault, Word
from tests.faults.scenarios import POD
from tests.support.faultrules import Action, Answer, Drop, Hang, LoseReply, Rule, Side

if TYPE_CHECKING:
    from tests.faults.plays import Plays

pytestmark = pytest.mark.asyncio(loop_scope="session")

_HTML = "<html><body>a gateway's page</body></html>"
ACTED: dict[str, Action] = {
    "reply lost": LoseReply(),
    "never answered": Hang(acted=True),
    "HTML 200": Answer(200, _HTML, acted=True),
    "empty 204": Answer(204, acted=True),
}
NOT_ACTED: dict[str, Action] = {
    "500": Answer(500, '{"error": "it broke", "code": "INTERNAL"}'),
    "connection dropped": Drop(),
}


def _plan(scenario: str, what: str, action: Action, word: Word = Word.NOTHING) -> Plan:
    rule = Rule(Side.CLOUD, SCENARIOS[scenario].kind.create, action)
    return Plan(f"{scenario} create {what}", scenario, (rule,), word=word)


@pytest.mark.parametrize("what", ACTED)
async def test_a_pod_that_was_created_unheard_is_found_by_its_webhook(plays: Plays, what: str) -> None:
    await plays.holds(_plan("pod", what, ACTED[what]))


async def test_a_vm_that_was_created_unheard_is_found_by_its_webhook(plays: Plays) -> None:
    await plays.holds(_plan("vm", "reply lost", ACTED["reply lost"]))


@pytest.mark.parametrize("what", NOT_ACTED)
async def test_a_pod_whose_create_may_have_failed_waits_for_a_person(plays: Plays, what: str) -> None:
    await plays.holds(_plan("pod", what, NOT_ACTED[what], Word.RETRY_CREATE))


async def test_a_pod_with_its_answer_and_its_webhooks_lost_is_never_doubled(plays: Plays) -> None:
    rule = Rule(Side.CLOUD, POD.create, LoseReply())
    lost = (WebhookFault("lose"),)
    await plays.holds(Plan("pod create and webhooks lost", "pod", (rule,), lost, Word.AS_FOUND))
