"""A line over time as SVG, with its scales as text around it, so that they stay readable at any width."""

from collections.abc import Sequence
from typing import Final

from relay_localcloud.console.balance_series import Point
from relay_localcloud.console.markup import Html, element, fragment
from relay_localcloud.console.wording import absolute, money
from relay_localcloud.kernel.instants import SECOND

_WIDTH: Final = 960
_HEIGHT: Final = 240
_TABLE_ENTRIES: Final = 12


def balance_chart(points: Sequence[Point], floor_cents: int) -> Html:
    """The chart, what it shows in words, and a table of it."""
    lowest, highest = _bounds(points, floor_cents)
    first, last = points[0], points[-1]
    words = (
        f"Available balance from {absolute(first.second * SECOND)}, {money(first.cents)}, "
        f"to {absolute(last.second * SECOND)}, {money(last.cents)}."
    )
    return element(
        "figure",
        element(
            "div",
            _scale([money(highest), money((highest + lowest) // 2), money(lowest)], "amounts"),
            _drawing(points, lowest, highest, floor_cents, words),
            _scale([_instant(point) for point in (first, points[len(points) // 2], last)], "times"),
            class_="plot",
        ),
        element("figcaption", words),
        _as_table(points),
        class_="chart",
    )


def sparkline(points: Sequence[Point], label: str) -> Html:
    """The line alone."""
    lowest, highest = _bounds(points, min(point.cents for point in points))
    line = element("polyline", points=_line(points, lowest, highest), class_="line")
    return element("svg", line, viewBox=f"0 0 {_WIDTH} {_HEIGHT}", class_="spark", role="img", aria_label=label, **_FIT)


_FIT: Final = {"preserveAspectRatio": "none"}


def _drawing(points: Sequence[Point], lowest: int, highest: int, floor_cents: int, words: str) -> Html:
    line = _line(points, lowest, highest)
    grid = [_level(_HEIGHT * part / 4, "grid") for part in range(5)]
    shown_floor = lowest <= floor_cents <= highest
    return element(
        "svg",
        element("g", grid),
        element("polygon", points=f"0,{_HEIGHT} {line} {_WIDTH},{_HEIGHT}", class_="area"),
        element("polyline", points=line, class_="line"),
        _level(_y(floor_cents, lowest, highest), "floor") if shown_floor else None,
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        role="img",
        aria_label=words,
        **_FIT,
    )


def _bounds(points: Sequence[Point], floor_cents: int) -> tuple[int, int]:
    """The range of amounts; the floor is in it once the balance has come near."""
    amounts = [point.cents for point in points]
    lowest, highest = min(amounts), max(amounts)
    room = max((highest - lowest) // 10, 100)
    if lowest - floor_cents < 3 * (highest - lowest) + room:
        lowest = min(lowest, floor_cents)
    return lowest - room, highest + room


def _line(points: Sequence[Point], lowest: int, highest: int) -> str:
    first, last = points[0].second, points[-1].second
    if first == last:
        level = _y(points[-1].cents, lowest, highest)
        return f"0,{level} {_WIDTH},{level}"
    return " ".join(
        f"{_WIDTH * (point.second - first) / (last - first):.1f},{_y(point.cents, lowest, highest):.1f}"
        for point in points
    )


def _y(cents: int, lowest: int, highest: int) -> float:
    return _HEIGHT * (highest - cents) / (highest - lowest)


def _level(y: float, class_: str) -> Html:
    return element("line", x1=0, y1=f"{y:.1f}", x2=_WIDTH, y2=f"{y:.1f}", class_=class_)


def _scale(labels: Sequence[str | Html], class_: str) -> Html:
    return element("ol", [element("li", label) for label in labels], class_=class_, aria_hidden="true")


def _instant(point: Point) -> Html:
    day, time = absolute(point.second * SECOND).split(" ")
    return fragment(element("span", day), element("span", time))


def _as_table(points: Sequence[Point]) -> Html:
    every = max(len(points) // _TABLE_ENTRIES, 1)
    chosen = list(reversed(points))[::every]
    rows = [element("tr", element("td", absolute(p.second * SECOND)), element("td", money(p.cents))) for p in chosen]
    head = element("tr", element("th", "At (UTC)", scope="col"), element("th", "Available", scope="col"))
    whole = element("table", element("thead", head), element("tbody", rows), class_="plain")
    return element("details", element("summary", "As a table"), whole, id="balance-table")
