"""The page of the clock: its mode and rate, and how to move it to any instant."""

from typing import Final

from sqlalchemy import select

from relay_localcloud.console.forms import field, form, options
from relay_localcloud.console.markup import Html, element, fragment
from relay_localcloud.console.parts import Row, section, table
from relay_localcloud.console.reading import Reading
from relay_localcloud.console.requested import Requested
from relay_localcloud.console.wording import moment
from relay_localcloud.kernel import tables
from relay_localcloud.kernel.instants import timestamp
from relay_localcloud.kernel.store import Tx

PATH: Final = "/console/clock"
_DUE_SHOWN: Final = 25
_UNITS: Final = {"60": "minutes", "3600": "hours", "86400": "days", "1": "seconds"}
_MODES: Final = {"real": "Real time", "frozen": "Frozen", "scaled": "Scaled"}


def content(reading: Reading) -> Html:
    """The forms, and what falls due next."""
    requested, state = reading.requested, reading.cloud.clock.state
    return fragment(
        section("Move it", _advance(requested), _set(requested, reading.tx.now), key="move"),
        section("How it goes", _mode(requested, state.mode, f"{state.rate:g}"), key="mode"),
        _due(reading.tx),
    )


def _advance(requested: Requested) -> Html:
    return form(
        requested,
        f"{PATH}/advance",
        field("amount", "By", "input", name="amount", type="number", min=0, step="any", required=True, value="1"),
        field("unit", "Unit", "select", options(_UNITS, "3600"), name="seconds"),
        element("button", "Move it on", type="submit", class_="primary"),
        class_="fields",
    )


def _set(requested: Requested, now: int) -> Html:
    hint = "RFC 3339, such as 2027-01-01T00:10:00Z. It cannot go back."
    written = {"value": timestamp(now), "autocomplete": "off", "spellcheck": "false"}
    return form(
        requested,
        f"{PATH}/set",
        field("instant", "To the instant", "input", hint=hint, name="set", required=True, **written),
        element("button", "Move it there", type="submit"),
        class_="fields",
    )


def _mode(requested: Requested, mode: str, rate: str) -> Html:
    bounds = {"min": "0", "max": "1000000", "step": "any"}
    hint = "Seconds a second; for the mode Scaled."
    return form(
        requested,
        f"{PATH}/mode",
        field("mode-chosen", "Mode", "select", options(_MODES, mode), name="mode"),
        field("rate", "Rate", "input", hint=hint, name="rate", type="number", value=rate, **bounds),
        element("button", "Change it", type="submit"),
        class_="fields",
    )


def _due(tx: Tx) -> Html:
    item = tables.due.c
    query = select(item.id, item.due_at, item.kind, item.subject).order_by(item.due_at, item.id).limit(_DUE_SHOWN)
    rows = [
        Row(
            f"due-{row.id}",
            (moment(row.due_at, tx.now), element("code", row.kind), element("code", row.subject, class_="id")),
        )
        for row in tx.connection.execute(query)
    ]
    hint = "Nothing is due. What workloads, billing, webhooks and batches will do appears here."
    return section("What falls due next", table("Due", ("When", "What", "Of"), rows, hint), key="due")
