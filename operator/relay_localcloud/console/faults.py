"""The page of faults: what is made to go wrong, and a form for the simple ones."""

import json
from collections.abc import Iterable, Mapping
from typing import Final

from pydantic import JsonValue

from relay_localcloud.console.forms import button, field, form, options
from relay_localcloud.console.markup import Html, element, fragment
from relay_localcloud.console.parts import Row, identifier, section, table
from relay_localcloud.console.reading import Reading
from relay_localcloud.console.requested import Requested
from relay_localcloud.console.secrets import without_secrets
from relay_localcloud.faults import faults

PATH: Final = "/console/faults"
_HINT: Final = "Nothing is made to go wrong. The form below adds a fault; POST /_localcloud/faults can do more."

SIMPLE_EFFECTS: Final[Mapping[str, tuple[str, dict[str, JsonValue]]]] = {
    "500": ("Answer 500", {"status": 500}),
    "503": ("Answer 503", {"status": 503}),
    "429": ("Answer 429, Retry-After 2", {"status": 429, "headers": {"Retry-After": "2"}}),
    "lost-reply": ("Do it, lose the reply", {"drop": "after"}),
    "lost-request": ("Break the connection before it is done", {"drop": "before"}),
    "slow": ("Answer 5 seconds later", {"delaySeconds": 5}),
    "html": ("Answer with an HTML page", {"html": True}),
    "truncated": ("Break the answer off after 20 bytes", {"truncateBytes": 20}),
    "webhook-lost": ("Webhook: lose it", {"lose": True}),
    "webhook-twice": ("Webhook: send it twice", {"duplicate": 1}),
    "webhook-late": ("Webhook: 30 seconds late", {"delaySeconds": 30}),
    "webhook-reordered": ("Webhook: after the next one", {"reorder": True}),
}
"""By the word that the form sends: what it is called, and the effect that the control interface takes."""


def content(reading: Reading) -> Html:
    """Every fault with how often it was seen and applied, and the form."""
    requested = reading.requested
    rows = [_fault(requested, item) for item in faults.shown(reading.tx)]
    operations = [name for name in reading.cloud.operations.names if " /v1/" in name]
    heads = ("Operation", "Effect", "When", "Applied", "End it")
    everything = button(requested, f"{PATH}/remove-all", "Remove all") if len(rows) > 1 else None
    return fragment(
        section("Present faults", table("Faults", heads, rows, _HINT), everything, key="present"),
        section("Add a fault", _form(requested, operations), key="add"),
    )


def _fault(requested: Requested, item: Mapping[str, JsonValue]) -> Row:
    fault_id = str(item["id"])
    whose = element("small", f"in {item['organizationId']}") if item["organizationId"] else None
    operation = fragment(element("code", str(item["operation"])), element("small", identifier(fault_id)), whose)
    remove = button(requested, f"{PATH}/{fault_id}/remove", "Remove", about=fault_id)
    effect = element("code", without_secrets(json.dumps(item["effect"])))
    applied = f"{item['applied']} of {item['seen']} seen"
    return Row(fault_id, (operation, effect, "; ".join(_conditions(item)) or "always", applied, remove))


def _conditions(item: Mapping[str, JsonValue]) -> Iterable[str]:
    if item["skip"]:
        yield f"after {item['skip']}"
    if item["count"] is not None:
        yield f"{item['count']} at most"
    if item["probability"] is not None:
        yield f"with probability {item['probability']}"


def _form(requested: Requested, operations: Iterable[str]) -> Html:
    names = [*sorted(operations, key=lambda name: name.split(" ")[::-1]), faults.WEBHOOK]
    offered = element("datalist", [element("option", value=name) for name in names], id="operations")
    effects = {word: label for word, (label, _) in SIMPLE_EFFECTS.items()}
    named = {"value": "POST /v1/pods", "list": "operations", "autocomplete": "off"}
    often = {"type": "number", "min": "1", "max": "1000000", "value": "1"}
    hint = "METHOD /path as /openapi.json has it, or webhook."
    return form(
        requested,
        PATH,
        offered,
        field("operation", "Operation", "input", hint=hint, name="operation", required=True, **named),
        field("effect", "Effect", "select", options(effects), name="effect"),
        field("count", "How often", "input", hint="Empty: until it is removed.", name="count", **often),
        element("button", "Add the fault", type="submit", class_="primary"),
        class_="fields",
    )
