"""Whether the cloud's webhooks arrive: by its own list of attempts, and by what polling had to find out."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from relay_client import Cloud, CloudError, Unauthorized
from relay_client.operations import LIST_WEBHOOK_DELIVERIES
from relay_wire.webhooks import WebhookDelivery

FAILED_IN_A_ROW = 3
"""Attempts in vain, the newest ones, that are no longer a restart of ours."""
UNTOLD = 3
"""Changes that polls of settled objects found, while no webhook came."""


@dataclass(slots=True)
class Evidence:
    """What this process knows of one account's webhooks."""

    untold: int = 0
    """Changes that polls found since the last webhook came."""
    arrived: bool = False
    """One came to this process."""
    before: str | None = None
    """The newest attempt when it first looked, empty if there was none: what failed earlier, nobody listened to."""


async def why_missing(cloud: Cloud, webhook_id: str, evidence: Evidence) -> str | None:
    """Why deliveries count as missing; empty if they arrive, None if there is nothing to judge by.

    Raises Unauthorized.

    The list of attempts is assumed (section 6 does not show it): a cloud without it is judged by polling alone.
    """
    try:
        attempts = (await cloud.call(LIST_WEBHOOK_DELIVERIES, id=webhook_id)).items
    except Unauthorized:
        raise
    except CloudError:
        attempts = []
    if evidence.before is None:
        evidence.before = attempts[0].id if attempts else ""
    fresh = [*takewhile(lambda attempt: attempt.id != evidence.before, attempts)]
    return failing(fresh) or unheard(evidence.untold) or ("" if fresh or evidence.arrived else None)


def failing(attempts: Sequence[WebhookDelivery]) -> str:
    """A sentence where the newest attempts all failed. `attempts`: newest first. Pure."""
    newest = attempts[:FAILED_IN_A_ROW]
    if len(newest) < FAILED_IN_A_ROW or any(map(_arrived, newest)):
        return ""
    last = newest[0]
    cause = last.error or (f"HTTP {last.status_code}" if last.status_code is not None else "no answer")
    when = f", at {last.requested_at}" if last.requested_at else ""
    return f"the cloud's last {FAILED_IN_A_ROW} deliveries failed, the newest{when}: {cause}; {_LOOK}"


def unheard(untold: int) -> str:
    """A sentence where polling found too much that no webhook told of. Pure."""
    if untold < UNTOLD:
        return ""
    return f"polling found {untold} changes that no webhook reported, and no webhook has come since; {_LOOK}"


def _arrived(attempt: WebhookDelivery) -> bool:
    return attempt.status_code is not None and 200 <= attempt.status_code < 300


_LOOK = "make sure that the cloud can reach RELAY_WEBHOOK_PUBLIC_URL. Polling works meanwhile"
