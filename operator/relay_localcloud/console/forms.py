"""Buttons: each is a form of its own that posts, and comes back to the page that it is on."""

from collections.abc import Mapping

from relay_localcloud.console.markup import Attribute, Child, Html, element, fragment
from relay_localcloud.console.requested import Requested


def form(requested: Requested, action: str, *children: Child, class_: str = "act", **fields: str) -> Html:
    """A form that posts these fields and what its children add."""
    hidden = [_hidden(name, value) for name, value in {**fields, "back": requested.here}.items()]
    return element("form", fragment(hidden), *children, method="post", action=action, class_=class_)


def button(
    requested: Requested, action: str, label: str, *, about: str = "", class_: str | None = None, **fields: str
) -> Html:
    """A form with one button; `about` says to screen readers what it is for."""
    spoken = element("span", f" {about}", class_="unseen") if about else None
    return form(requested, action, element("button", label, spoken, type="submit", class_=class_), **fields)


def field(key: str, label: str, tag: str, *children: Child, hint: str | None = None, **attributes: Attribute) -> Html:
    """A control with its label, and a hint where there is more to say; `key` is its id."""
    described = f"{key}-hint" if hint else None
    return element(
        "div",
        element("label", label, for_=key),
        element(tag, *children, id=key, aria_describedby=described, **attributes),
        element("small", hint, id=described) if hint else None,
        class_="field",
    )


def options(values: Mapping[str, str], chosen: str | None = None) -> list[Html]:
    """What a selection offers: values with their labels."""
    return [element("option", label, value=value, selected=value == (chosen or "")) for value, label in values.items()]


def _hidden(name: str, value: str) -> Html:
    return element("input", type="hidden", name=name, value=value)
