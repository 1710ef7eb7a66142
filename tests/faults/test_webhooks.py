"""Webhooks are only hints: status is right even if they are lost, duplicated, reordered or late."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults.plans import Plan, WebhookFault
from tests.faults.scenarios import WORKLOADS

if TYPE_CHECKING:
    from tests.faults.plays import Plays

pytestmark = pytest.mark.asyncio(loop_scope="session")

FAULTS = {
    "lost": WebhookFault("lose"),
    "duplicated": WebhookFault("duplicate", 3),
    "reordered": WebhookFault("reorder"),
    "late": WebhookFault("delaySeconds", 2),
}


@pytest.mark.parametrize("what", FAULTS)
@pytest.mark.parametrize("scenario", WORKLOADS)
async def test_webhooks_may_be(plays: Plays, scenario: str, what: str) -> None:
    await plays.holds(Plan(f"{scenario} webhooks {what}", scenario, webhooks=(FAULTS[what],)))
