"""The first page: the state of everything at a glance, and the ways to each part."""

from typing import Final

from sqlalchemy import func, select

from relay_localcloud.console import money, nodes, requests, tallies, webhooks, workloads
from relay_localcloud.console.chart import sparkline
from relay_localcloud.console.markup import Html, element, fragment
from relay_localcloud.console.parts import section, table
from relay_localcloud.console.reading import Reading
from relay_localcloud.console.wording import counted, hourly, pill
from relay_localcloud.console.wording import money as dollars
from relay_localcloud.identity import organizations
from relay_localcloud.kernel import tables
from relay_localcloud.money import billing

_SHOWN: Final = 5
_LOOKED_THROUGH: Final = 1_000
"""How many of the newest requests are looked through for unread fields."""


def content(reading: Reading) -> Html:
    """Counts, the balance, and the newest of everything."""
    to = reading.requested.to
    attempts = [webhooks.shown(reading, row) for row in reading.newest(tables.webhook_attempts, _SHOWN)]
    asked = [requests.shown(reading, logged) for logged in requests.newest(reading, _SHOWN)]
    return fragment(
        element("div", _workloads(reading), _balance(reading), _nodes(reading), _faults(reading), class_="cards"),
        section(
            "Newest workloads",
            table("Newest workloads", workloads.HEADS, workloads.newest(reading, _SHOWN), workloads.CREATE_HINT),
            key="workloads",
            more=("All workloads", to(workloads.PATH)),
        ),
        section(
            "Newest webhook attempts",
            table("Newest webhook attempts", webhooks.HEADS, attempts, webhooks.HINT),
            key="attempts",
            more=("All attempts", to(webhooks.PATH)),
        ),
        section(
            "Newest requests",
            table("Newest requests", requests.HEADS, asked, requests.HINT),
            key="requests",
            more=("All requests", to(requests.PATH)),
        ),
    )


def _workloads(reading: Reading) -> Html:
    states = tallies.live(reading.tx, reading.requested.organization_id)
    counts = [
        element("li", pill(state), element("strong", f"{count:,}"), id=f"count-{state}")
        for state, count in states.items()
    ]
    return _card(
        "Workloads",
        element("p", tallies.sentence(states), class_="unseen", aria_live="polite"),
        element("ul", counts, class_="counts") if counts else element("p", "None.", class_="big"),
        href=reading.requested.to(workloads.PATH),
    )


def _balance(reading: Reading) -> Html:
    organization_id = money.payer(reading.tx, reading.requested)
    has = billing.account(reading.tx, organization_id)
    whose = organizations.name_of(reading.tx, organization_id)
    return _card(
        "Balance",
        element("p", dollars(has.available_cents), id="available", class_="big"),
        element("p", f"{whose} · {hourly(has.meter.burn)} · {money.runway(has)}"),
        sparkline(money.whole_life(reading.tx, organization_id), "The balance over time"),
        href=reading.requested.to(money.PATH),
    )


def _nodes(reading: Reading) -> Html:
    return _card("Nodes", element("p", nodes.sentence(reading.tx)), href=reading.requested.to(nodes.PATH))


def _faults(reading: Reading) -> Html:
    present = reading.tx.connection.execute(select(func.count()).select_from(tables.faults)).scalar_one()
    unread = sum(1 for logged in requests.newest(reading, _LOOKED_THROUGH) if logged.unread_fields)
    flagged = f"{counted(unread, 'request')} with unread fields."
    unread_link = element("a", flagged, href=reading.requested.to(requests.PATH, only="unread"))
    return _card(
        "Faults",
        element("p", f"{counted(present, 'fault')} present." if present else "Nothing is made to go wrong."),
        element("p", unread_link) if unread else None,
        href=reading.requested.to("/console/faults"),
    )


def _card(title: str, *children: Html | None, href: str) -> Html:
    return element("section", element("h2", element("a", title, href=href)), *children, class_="card")
