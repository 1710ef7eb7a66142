"""When the cloud's webhooks count as missing."""

import json

import pytest

from relay_client import Cloud
from relay_client.answers import MAX_VALUES
from relay_operator.webhooks.deliveries import Evidence, failing, unheard, why_missing
from relay_wire.webhooks import WebhookDelivery
from tests.unit.client.conftest import QUICK
from tests.unit.client.scripted import Reply, scripted_server


def _attempt(status: int | None, error: str | None = None, second: int = 40) -> WebhookDelivery:
    return WebhookDelivery(id="d", status_code=status, error=error, requested_at=f"2026-01-01T00:00:{second:02}Z")


TAKEN, REFUSED, SILENT = _attempt(204), _attempt(404), _attempt(None, "connection refused")
EARLIER, LATER = _attempt(404, second=10), _attempt(404, second=11)
ATTEMPTS: dict[str, tuple[list[WebhookDelivery], str]] = {
    "none so far": ([], ""),
    "too few to tell": ([REFUSED, REFUSED], ""),
    "the newest arrived": ([TAKEN, REFUSED, REFUSED, REFUSED], ""),
    "one of the newest arrived": ([REFUSED, TAKEN, REFUSED], ""),
    "refused": ([REFUSED, SILENT, EARLIER, TAKEN], "the newest, at 2026-01-01T00:00:40Z: HTTP 404"),
    "refused for less than half a minute, as in a takeover": ([REFUSED, SILENT, LATER, TAKEN], ""),
    "many at once": ([REFUSED] * 50, ""),
    "many at once, and one before": ([REFUSED] * 50 + [EARLIER], "HTTP 404"),
    "not reached": ([SILENT, SILENT, EARLIER], "connection refused"),
    "without a word": ([WebhookDelivery(id="d")] * 3, "the newest: no answer"),
}


@pytest.mark.parametrize(("attempts", "told"), ATTEMPTS.values(), ids=ATTEMPTS)
def test_deliveries_are_missing_where_the_newest_failed(attempts: list[WebhookDelivery], told: str) -> None:
    assert told in failing(attempts)
    assert bool(failing(attempts)) is bool(told)


@pytest.mark.parametrize(("untold", "missing"), [(0, False), (2, False), (3, True), (9, True)])
def test_deliveries_are_missing_where_polling_found_too_much(untold: int, missing: bool) -> None:
    assert bool(unheard(untold)) is missing


async def test_attempts_before_this_process_listened_do_not_count_even_if_the_first_list_failed() -> None:
    old = [each.model_dump() | {"id": f"d-{number}"} for number, each in enumerate([REFUSED, SILENT, EARLIER])]
    listed = Reply(body=json.dumps({"items": old}).encode())
    evidence = Evidence()
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="o", policy=QUICK) as cloud:
        server.will(Reply(403, b'{"error":"not now"}'), listed)
        assert await why_missing(cloud, "wh-1", evidence) is None
        assert await why_missing(cloud, "wh-1", evidence) is None
        new = [{**old[0], "id": "d-new", "requestedAt": "2026-01-01T00:01:00Z"}, *old]
        server.will(Reply(body=json.dumps({"items": new, "more": [0] * MAX_VALUES}).encode()))
        assert await why_missing(cloud, "wh-1", evidence) == ""
