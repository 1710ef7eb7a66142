"""Whether the cloud's webhooks arrive, judged by its list of attempts and by what only polling found."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import takewhile

from relay_client import Cloud, CloudError, Unauthorized
from relay_client.operations import LIST_WEBHOOK_DELIVERIES
from relay_operator.engine.fit_schema import moment
from relay_wire.webhooks import WebhookDelivery

FAILED_IN_A_ROW = 3
"""A restart of the operator does not explain so many newest attempts that all failed."""
FAILED_FOR = timedelta(seconds=30)
"""Nor does a takeover, if they fell into more than its seconds. The cloud tries again 10 s and 70 s after the first."""
UNTOLD = 3
"""Changes found by polling settled objects, while no webhook came, that count as proof."""


@dataclass(slots=True)
class Evidence:
    """What this process knows of one account's webhooks."""

    untold: int = 0
    """Changes that polls found since the last webhook."""
    arrived: bool = False
    """Whether a webhook came to this process."""
    before: str | None = None
    """Id of the newest attempt in the first list, empty if none: this process was not listening for earlier ones."""


async def why_missing(cloud: Cloud, webhook_id: str, evidence: Evidence) -> str | None:
    """Why deliveries count as missing; empty if they arrive, None without evidence.

    Raises Unauthorized.

    The list of attempts is assumed (section 6 does not show it): a cloud without it is judged by polling alone.
    """
    try:
        attempts = (await cloud.call(LIST_WEBHOOK_DELIVERIES, id=webhook_id, large=True)).items
    except Unauthorized:
        raise
    except CloudError:
        return unheard(evidence.untold) or ("" if evidence.arrived else None)
    if evidence.before is None:
        evidence.before = attempts[0].id if attempts else ""
    fresh = [*takewhile(lambda attempt: attempt.id != evidence.before, attempts)]
    return failing(fresh) or unheard(evidence.untold) or ("" if fresh or evidence.arrived else None)


def failing(attempts: Sequence[WebhookDelivery]) -> str:
    """A message if the newest attempts all failed, for some time; else empty. `attempts`: newest first. Pure."""
    failed = [*takewhile(lambda attempt: not _arrived(attempt), attempts)]
    if len(failed) < FAILED_IN_A_ROW or _lasted(failed) < FAILED_FOR:
        return ""
    last = failed[0]
    cause = last.error or (f"HTTP {last.status_code}" if last.status_code is not None else "no answer")
    when = f", at {last.requested_at}" if last.requested_at else ""
    return f"the cloud's last {FAILED_IN_A_ROW} deliveries failed, the newest{when}: {cause}; {_LOOK}"


def unheard(untold: int) -> str:
    """A message if polling found too many changes that no webhook reported; else empty. Pure."""
    if untold < UNTOLD:
        return ""
    return f"polling found {untold} changes that no webhook reported, and no webhook has come since; {_LOOK}"


def _lasted(attempts: Sequence[WebhookDelivery]) -> timedelta:
    """From the oldest to the newest; if the cloud does not say when they were, long enough."""
    newest, oldest = moment(attempts[0].requested_at), moment(attempts[-1].requested_at)
    return FAILED_FOR if newest is None or oldest is None else newest - oldest


def _arrived(attempt: WebhookDelivery) -> bool:
    return attempt.status_code is not None and 200 <= attempt.status_code < 300


_LOOK = "make sure that the cloud can reach RELAY_WEBHOOK_PUBLIC_URL. Polling works meanwhile"
