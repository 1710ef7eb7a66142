"""What pages are made of: sections, tables that become cards on a phone, pages of a list, what an empty list says."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from relay_localcloud.console.markup import Child, Html, element, fragment
from relay_localcloud.console.requested import Requested


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table; `key` stays the same while what it shows changes."""

    key: str
    cells: Sequence[Child]


def section(title: str, *children: Child, key: str, more: tuple[str, str] | None = None) -> Html:
    """A part of a page with a heading; `more` is the label and the address of a link beside it."""
    link = element("a", more[0], href=more[1]) if more else None
    head = element("div", element("h2", title, id=f"{key}-title"), link, class_="head")
    return element("section", head, *children, id=key, aria_labelledby=f"{key}-title")


def table(caption: str, heads: Sequence[str], rows: Sequence[Row], empty: Child) -> Html:
    """A table, or what to do so that there is something in it."""
    if not rows:
        return nothing(empty)
    head = element("tr", [element("th", name, scope="col", role="columnheader") for name in heads], role="row")
    body = [_row(heads, row) for row in rows]
    # The roles stay those of a table where a narrow screen shows each row as a card.
    return element(
        "table",
        element("caption", caption, class_="unseen"),
        element("thead", head, role="rowgroup"),
        element("tbody", body, role="rowgroup"),
        role="table",
    )


def nothing(*children: Child) -> Html:
    """What an empty list says."""
    return element("p", *children, class_="empty")


def facts(*pairs: tuple[str, Child]) -> Html:
    """Names with their values."""
    return element("dl", [fragment(element("div", element("dt", name), element("dd", value))) for name, value in pairs])


def choices(requested: Requested, label: str, name: str, words: Mapping[str | None, str], chosen: str | None) -> Html:
    """Links to this page with each of the words as the parameter `name`, None without it; one is `chosen`."""
    items = [
        element(
            "li",
            element(
                "a",
                text,
                href=requested.to(requested.path, **{name: word}),
                aria_current="true" if word == chosen else None,
            ),
        )
        for word, text in words.items()
    ]
    return element("nav", element("ul", items), aria_label=label, class_="choices")


def pages(requested: Requested, place: str, further: int | None, **kept: str | None) -> Html | None:
    """Links to this page's newest entries and to those beyond `further`, where there are such.

    `place` is the parameter that says where a page begins: `before`, or `<key of the section>-before`.
    """
    anchor = f"#{place.partition('-')[0]}" if "-" in place else ""
    newest, older = (requested.to(requested.path, **kept, **{place: at}) + anchor for at in (None, further))
    begun = requested.number(place) is not None
    if not begun and further is None:
        return None
    return element(
        "nav",
        element("a", "← Newest", href=newest) if begun else None,
        element("a", "Older →", href=older) if further is not None else None,
        aria_label="Pages",
        class_="pages",
    )


def named(name: str, key: str, *more: Child, kind: str = "") -> Html:
    """A name with the id below it."""
    return fragment(element("strong", name), element("small", kind, identifier(key)), *more)


def identifier(text: str) -> Html:
    """An id."""
    return element("code", text, class_="id")


def _row(heads: Sequence[str], row: Row) -> Html:
    cells = [
        element("td", element("div", cell), data_label=head, role="cell")
        for head, cell in zip(heads, row.cells, strict=True)
    ]
    return element("tr", cells, id=row.key, role="row")
