"""The page of webhooks: every attempt to deliver one, and a button that sends it again."""

from typing import Final
from urllib.parse import urlsplit

from sqlalchemy import RowMapping, func, select
from starlette.responses import Response

from relay_localcloud.console.forms import button
from relay_localcloud.console.markup import Html, element, fragment
from relay_localcloud.console.parts import Row, identifier, links, pages, section, table
from relay_localcloud.console.reading import Reading
from relay_localcloud.console.view import CurrentView
from relay_localcloud.console.wording import Tone, moment, pill
from relay_localcloud.http.routing import Router
from relay_localcloud.kernel import tables

router = Router()

PATH: Final = "/console/webhooks"
ON_A_PAGE: Final = 25
_SUBSCRIPTIONS_SHOWN: Final = 50
HEADS: Final = ("When", "Event", "Attempt", "Outcome", "Again")
HINT: Final = (
    "Nothing was sent yet. Subscribe with POST /v1/orgs/{orgId}/webhooks/create, then let something happen, such as a "
    "pod that starts."
)


@router.get(PATH)
async def webhooks_page(view: CurrentView) -> Response:
    """Subscriptions, and attempts, newest first."""
    return view.answer("Webhooks", _content)


def attempts(reading: Reading, count: int, *, before: int | None = None, failed: bool = False) -> list[RowMapping]:
    """The newest attempts."""
    attempt = tables.webhook_attempts.c
    query = select(tables.webhook_attempts).order_by(attempt.sequence.desc()).limit(count)
    if reading.requested.organization_id is not None:
        query = query.where(attempt.organization_id == reading.requested.organization_id)
    if before is not None:
        query = query.where(attempt.sequence < before)
    if failed:
        query = query.where(func.coalesce(attempt.status_code, 0).not_between(200, 299))
    return list(reading.tx.connection.execute(query).mappings())


def shown(reading: Reading, row: RowMapping) -> Row:
    """One attempt."""
    event = fragment(
        element("strong", row["event_type"]),
        element("small", identifier(row["delivery_id"])),
        reading.owner(row["organization_id"]),
    )
    again = button(reading.requested, f"/console/deliveries/{row['id']}/replay", "Replay", about=row["delivery_id"])
    return Row(
        row["id"],
        (moment(row["requested_at"], reading.tx.now), event, str(row["attempt"]), _outcome(row), again),
    )


def _content(reading: Reading) -> Html:
    requested = reading.requested
    before, failed = requested.number("before"), requested.word("only") == "failed"
    only = "failed" if failed else None
    found = attempts(reading, ON_A_PAGE + 1, before=before, failed=failed)
    rows = [shown(reading, row) for row in found[:ON_A_PAGE]]
    older = None
    if len(found) > ON_A_PAGE:
        older = requested.to(PATH, only=only, before=found[ON_A_PAGE - 1]["sequence"])
    return fragment(
        section(
            "Attempts",
            links(
                "Which attempts",
                [("All", requested.to(PATH), not failed), ("Failed", requested.to(PATH, only="failed"), failed)],
            ),
            table("Attempts", HEADS, rows, "No attempt has failed." if failed else HINT),
            pages(requested.to(PATH, only=only) if before is not None else None, older),
            key="attempts",
        ),
        _subscriptions(reading),
    )


def _outcome(row: RowMapping) -> Html:
    status = row["status_code"]
    if status is None:
        word = pill("no answer", Tone.BAD)
    else:
        word = pill(str(status), Tone.GOOD if 200 <= status < 300 else Tone.BAD)
    fault = element("small", "fault ", identifier(row["fault_id"])) if row["fault_id"] else None
    error = element("small", row["error"], class_="reason") if row["error"] else None
    return fragment(word, element("small", f"{row['duration_ms']:,} ms"), error, fault)


def _subscriptions(reading: Reading) -> Html:
    webhook = tables.webhooks.c
    query = select(tables.webhooks).order_by(tables.FIRST_COME.desc()).limit(_SUBSCRIPTIONS_SHOWN)
    if reading.requested.organization_id is not None:
        query = query.where(webhook.organization_id == reading.requested.organization_id)
    rows = [
        Row(
            row["id"],
            (
                fragment(element("strong", row["name"]), element("small", identifier(row["id"]))),
                _receiver(row["url"]),
                pill("enabled", Tone.GOOD) if row["enabled"] else pill("paused"),
                moment(row["created_at"], reading.tx.now),
            ),
        )
        for row in reading.tx.connection.execute(query).mappings()
    ]
    hint = "No subscription yet: POST /v1/orgs/{orgId}/webhooks/create makes one."
    heads = ("Name", "Receiver", "Status", "Created")
    return section("Subscriptions", table("Subscriptions", heads, rows, hint), key="subscriptions")


def _receiver(url: str) -> Html:
    """The address without what may be secret in it: user, password, query."""
    parts = urlsplit(url)
    return element("span", f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}", class_="address")
