"""HTML as typed functions: whatever is not `Html` already is escaped."""

from collections.abc import Iterable
from html import escape
from typing import Final

_WITHOUT_CONTENT: Final = frozenset({"br", "input", "link", "meta"})


class Html(str):
    """Text that is HTML; only this module makes it."""

    __slots__ = ()


Child = Html | str | int | None | Iterable["Html"]
"""What an element contains: None is nothing, a string is text and not HTML."""

Attribute = str | int | bool | None
"""True stands for an attribute without a value; False and None leave it out."""


def element(tag: str, *children: Child, **attributes: Attribute) -> Html:
    """An element; `aria_label` is `aria-label`, and `class_` is `class`."""
    start = f"<{tag}{''.join(_attribute(name, value) for name, value in attributes.items())}>"
    return Html(start if tag in _WITHOUT_CONTENT else f"{start}{fragment(*children)}</{tag}>")


def fragment(*children: Child) -> Html:
    """Children one after another."""
    return Html("".join(map(_content, children)))


def page(head: Html, body: Html) -> str:
    """A whole document."""
    return f'<!DOCTYPE html>\n<html lang="en">{head}{body}</html>\n'


def _content(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Html):
        return child
    if isinstance(child, str | int):
        return escape(str(child))
    return "".join(child)


def _attribute(name: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    written = name.rstrip("_").replace("_", "-")
    return f" {written}" if value is True else f' {written}="{escape(str(value))}"'
