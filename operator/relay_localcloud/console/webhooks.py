"""The page of webhooks: every attempt to deliver one, and a button that sends it again."""

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

from sqlalchemy import ColumnElement, RowMapping, func, select

from relay_localcloud.console.forms import button
from relay_localcloud.console.markup import Html, element, fragment
from relay_localcloud.console.parts import Row, choices, identifier, named, section, table
from relay_localcloud.console.reading import Reading
from relay_localcloud.console.wording import Tone, moment, pill
from relay_localcloud.kernel import tables

PATH: Final = "/console/webhooks"
ON_A_PAGE: Final = 25
_SUBSCRIPTIONS_SHOWN: Final = 50
HEADS: Final = ("When", "Event", "Attempt", "Outcome", "Again")
HINT: Final = (
    "Nothing was sent yet. Subscribe with POST /v1/orgs/{orgId}/webhooks/create, then let something happen, such as a "
    "pod that starts."
)


_FAILED: Final = "failed"
_NOT_TAKEN: Final = ~func.coalesce(tables.webhook_attempts.c.status_code, 0).between(200, 299)
_ONLY: Final[Mapping[str | None, Sequence[ColumnElement[bool]]]] = {None: (), _FAILED: (_NOT_TAKEN,)}
"""By the parameter `only`: which attempts are shown."""


def shown(reading: Reading, row: RowMapping) -> Row:
    """One attempt."""
    event = named(row["event_type"], row["delivery_id"], reading.owner(row["organization_id"]))
    again = button(reading.requested, f"/console/deliveries/{row['id']}/replay", "Replay", about=row["delivery_id"])
    return Row(
        row["id"],
        (moment(row["requested_at"], reading.tx.now), event, str(row["attempt"]), _outcome(row), again),
    )


def content(reading: Reading) -> Html:
    """Subscriptions, and attempts, newest first."""
    only = _FAILED if reading.requested.word("only") == _FAILED else None
    found, others = reading.page(tables.webhook_attempts, ON_A_PAGE, *_ONLY[only], only=only)
    rows = [shown(reading, row) for row in found]
    return fragment(
        section(
            "Attempts",
            choices(reading.requested, "Which attempts", "only", {None: "All", _FAILED: "Failed"}, only),
            table("Attempts", HEADS, rows, "No attempt has failed." if only else HINT),
            others,
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
                named(row["name"], row["id"]),
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
