"""If the cloud can list pods, a lost create is found without webhooks and without people.

It is not ruled out as long as the list shows no pod: that of VMs may never show one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults.conftest import LATENCIES, module_fixture
from tests.faults.plans import Plan, WebhookFault, Word
from tests.faults.plays import Plays
from tests.faults.scenarios import POD
from tests.faults.stage import Stages
from tests.support.faultrules import Action, Answer, Deed, Hold, LoseReply, Moment, Rule, Side
from tests.support.localcloud import LocalCloud, Ports

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.faults.learned import Learned

pytestmark = pytest.mark.asyncio(loop_scope="session")

TROUBLE: dict[str, tuple[Action, Word]] = {
    "killed before the create": (Hold(Moment.BEFORE, Deed.KILL_OPERATOR), Word.RETRY_CREATE),
    "killed after the create": (Hold(Moment.ACTED, Deed.KILL_OPERATOR), Word.NOTHING),
    "reply lost": (LoseReply(), Word.NOTHING),
    "500": (Answer(500, '{"error": "it broke", "code": "INTERNAL"}'), Word.RETRY_CREATE),
}


@module_fixture
async def listing_plays(
    stages: Stages, plan_folder: Path, learned: Learned, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Plays]:
    """Plays plans with a cloud that lists pods."""
    cloud = LocalCloud(tmp_path_factory.mktemp("listing"), Ports.free(), list_vms=True, forks=True)
    await cloud.start()
    await cloud.control.settings(**LATENCIES)
    async with stages.stage(cloud) as stage:
        yield Plays(stage, plan_folder, learned)
    await cloud.process.kill()


@pytest.mark.parametrize("what", TROUBLE)
async def test_a_lost_create_is_found_in_the_list(listing_plays: Plays, what: str) -> None:
    action, word = TROUBLE[what]
    rule = Rule(Side.CLOUD, POD.create, action)
    await listing_plays.holds(Plan(f"listed pod {what}", "pod", (rule,), (WebhookFault("lose"),), word))
