"""The first page: the state of everything at a glance, and the ways to each part."""

from typing import Final

from fastapi import APIRouter, Response
from sqlalchemy import func, select

from relay_localcloud import billing, organizations, tables
from relay_localcloud.console import money, nodes, requests, tallies, webhooks, workloads
from relay_localcloud.console.chart import sparkline
from relay_localcloud.console.markup import Html, element, fragment
from relay_localcloud.console.parts import section, table
from relay_localcloud.console.view import CurrentView, View
from relay_localcloud.console.wording import counted, hourly, pill
from relay_localcloud.console.wording import money as dollars
from relay_localcloud.store import Tx

router = APIRouter(include_in_schema=False)

_SHOWN: Final = 8


@router.get("/")
async def overview(view: CurrentView) -> Response:
    """Counts, the balance, and the newest of everything."""
    return view.answer("Overview", lambda tx: _content(tx, view))


def _content(tx: Tx, view: View) -> Html:
    to = view.requested.to
    attempts = [webhooks.shown(tx, view, row) for row in webhooks.attempts(tx, view, _SHOWN)]
    asked = [requests.shown(tx, logged) for logged in requests.newest(view, _SHOWN)]
    return fragment(
        element("div", _workloads(tx, view), _balance(tx, view), _nodes(tx, view), _faults(tx, view), class_="cards"),
        section(
            "Newest workloads",
            table("Newest workloads", workloads.HEADS, workloads.newest(tx, view, _SHOWN), workloads.CREATE_HINT),
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


def _workloads(tx: Tx, view: View) -> Html:
    states = tallies.live(tx, view.requested.organization_id)
    counts = [
        element("li", pill(state), element("strong", f"{count:,}"), id=f"count-{state}")
        for state, count in states.items()
    ]
    return _card(
        "Workloads",
        element("p", tallies.sentence(states), class_="unseen", aria_live="polite"),
        element("ul", counts, class_="counts") if counts else element("p", "None.", class_="big"),
        href=view.requested.to(workloads.PATH),
    )


def _balance(tx: Tx, view: View) -> Html:
    organization_id = money.payer(tx, view.requested)
    has = billing.account(tx, organization_id)
    whose = organizations.name_of(tx, organization_id)
    return _card(
        "Balance",
        element("p", dollars(has.available_cents), id="available", class_="big"),
        element("p", f"{whose} · {hourly(has.meter.burn)} · {money.runway(has)}"),
        sparkline(money.whole_life(tx, organization_id), "The balance over time"),
        href=view.requested.to(money.PATH),
    )


def _nodes(tx: Tx, view: View) -> Html:
    return _card("Nodes", element("p", nodes.sentence(tx)), href=view.requested.to(nodes.PATH))


def _faults(tx: Tx, view: View) -> Html:
    present = tx.connection.execute(select(func.count()).select_from(tables.faults)).scalar_one()
    unread = len(requests.newest(view, _SHOWN, only="unread"))
    flagged = f"{'at least ' if unread == _SHOWN else ''}{counted(unread, 'request')} with unread fields."
    return _card(
        "Faults",
        element("p", f"{counted(present, 'fault')} present." if present else "Nothing is made to go wrong."),
        element("p", element("a", flagged, href=view.requested.to(requests.PATH, only="unread"))) if unread else None,
        href=view.requested.to("/console/faults"),
    )


def _card(title: str, *children: Html | None, href: str) -> Html:
    return element("section", element("h2", element("a", title, href=href)), *children, class_="card")
