"""What every page of the console has: the choice of organization, the clock, the ways to the other pages."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from relay_localcloud.clock.clock import ClockState
from relay_localcloud.console import files
from relay_localcloud.console.forms import button, options
from relay_localcloud.console.markup import Html, element, fragment, page
from relay_localcloud.console.requested import Requested
from relay_localcloud.console.wording import absolute, pill
from relay_localcloud.kernel.instants import SECOND, timestamp

PAGES: Final = {
    "/": "Overview",
    "/console/workloads": "Workloads",
    "/console/nodes": "Nodes",
    "/console/money": "Money",
    "/console/batches": "Batches",
    "/console/webhooks": "Webhooks",
    "/console/requests": "Requests",
    "/console/faults": "Faults",
    "/console/outbox": "Outbox",
    "/console/clock": "Clock",
}
"""By address: what the way to a page is called."""

STEPS: Final = {"+1 min": 60, "+10 min": 600, "+1 h": 3_600, "+1 day": 86_400}
"""How far the clock's buttons move it, in seconds."""


@dataclass(frozen=True)
class Frame:
    """What is around a page's own content."""

    requested: Requested
    version: str
    clock: ClockState
    now: int
    organizations: Mapping[str, str]
    notice: str | None = None


def whole_page(frame: Frame, title: str, content: Html) -> str:
    """The document."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"{title} · Local cloud"),
        element("link", rel="stylesheet", href=files.address("console.css")),
        element("link", rel="icon", type="image/svg+xml", href=files.address("icon.svg")),
        element("script", src=files.address("console.js"), defer=True),
    )
    body = element(
        "body",
        element("a", "Skip to the content", href="#main", class_="skip"),
        _header(frame),
        _ways(frame.requested),
        element(
            "main",
            element("p", frame.notice, id="notice", role="status"),
            element("h1", title),
            content,
            id="main",
            tabindex=-1,
        ),
        data_version=frame.version,
    )
    return page(head, body)


def _header(frame: Frame) -> Html:
    return element(
        "header",
        element("a", "Local cloud", href=frame.requested.to("/"), class_="brand"),
        _organizations(frame),
        _clock(frame),
    )


def _organizations(frame: Frame) -> Html:
    named = {key: f"{name} ({key})" for key, name in frame.organizations.items()}
    offered = options({"": "All organizations", **named}, frame.requested.organization_id)
    label = element("label", "Organization", for_="org", class_="unseen")
    return element(
        "form",
        label,
        element("select", offered, id="org", name="org"),
        element("button", "Show", type="submit"),
        method="get",
        action=frame.requested.path,
        class_="organization",
    )


def _clock(frame: Frame) -> Html:
    state, requested = frame.clock, frame.requested
    modes = {"real": "real time", "frozen": "frozen", "scaled": f"{state.rate:g} x real time"}
    steps = [
        button(requested, "/console/clock/advance", label, about="on the clock", seconds=str(seconds))
        for label, seconds in STEPS.items()
    ]
    frozen = state.mode == "frozen"
    turn = button(
        requested,
        "/console/clock/mode",
        "Run" if frozen else "Freeze",
        about="the clock",
        mode="real" if frozen else "frozen",
    )
    shown = element(
        "time",
        absolute(frame.now),
        id="now",
        datetime=timestamp(frame.now),
        data_second=frame.now // SECOND,
        data_rate=f"{state.rate:g}",
    )
    return element(
        "section",
        element("p", shown, " UTC ", pill(modes[state.mode]), class_="now"),
        element("div", fragment(*steps, turn), class_="steps"),
        aria_label="The cloud's clock",
        class_="clock",
    )


def _ways(requested: Requested) -> Html:
    items = [
        element(
            "li",
            element("a", label, href=requested.to(path), aria_current="page" if path == requested.path else None),
        )
        for path, label in PAGES.items()
    ]
    live = element(
        "p",
        element("span", "Live", id="live", role="status"),
        element("button", "Pause updates", type="button", id="pause", aria_pressed="false"),
        class_="live",
        hidden=True,
    )
    return element("div", element("nav", element("ul", items), aria_label="Console"), live, class_="ways")
