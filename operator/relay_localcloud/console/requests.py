"""The page of requests: what was asked of the APIs, what became of it, and what of it nobody read."""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from itertools import islice
from typing import Final

from relay_localcloud.console.markup import Html, element, fragment
from relay_localcloud.console.parts import Row, choices, identifier, pages, table
from relay_localcloud.console.reading import Reading
from relay_localcloud.console.secrets import without_secrets
from relay_localcloud.console.wording import Tone, moment, pill
from relay_localcloud.http.requestlog import LoggedRequest

PATH: Final = "/console/requests"
ON_A_PAGE: Final = 50
HEADS: Final = ("When", "Request", "Status", "Noticed")
HINT: Final = "No request yet. Send one to the management or the inference URL with the key of the ready line."

_FILTERS: Final[Mapping[str | None, tuple[str, Callable[[LoggedRequest], object]]]] = {
    None: ("All", lambda _: True),
    "unread": ("With unread fields", lambda logged: logged.unread_fields),
    "refused": ("Refused", lambda logged: logged.status is not None and logged.status >= HTTPStatus.BAD_REQUEST),
    "faults": ("Met by a fault", lambda logged: logged.fault_id is not None),
}
"""By the parameter `only`: its label, and which requests it is about."""


def newest(reading: Reading, count: int, *, before: int | None = None, only: str | None = None) -> list[LoggedRequest]:
    """The newest requests of the chosen organization, or of all."""
    found = reading.cloud.requests.before(before, reading.requested.organization_id)
    return list(islice(filter(_FILTERS[only][1], found), count))


def shown(reading: Reading, logged: LoggedRequest) -> Row:
    """One request."""
    if logged.status is None:
        status = pill("not acted on", Tone.WARNING)
    else:
        status = pill(str(logged.status), Tone.GOOD if logged.status < HTTPStatus.BAD_REQUEST else Tone.BAD)
    request = element("code", element("b", logged.method), " ", without_secrets(logged.path))
    return Row(
        f"request-{logged.seq}",
        (
            moment(logged.at, reading.tx.now),
            fragment(request, reading.owner(logged.organization_id)),
            status,
            _noticed(logged),
        ),
    )


def content(reading: Reading) -> Html:
    """The newest requests; the control interface's and the console's own are not among them."""
    requested, asked = reading.requested, reading.requested.word("only")
    only = asked if asked in _FILTERS else None
    found = newest(reading, ON_A_PAGE + 1, before=requested.number("before"), only=only)
    rows = [shown(reading, each) for each in found[:ON_A_PAGE]]
    filters = {word: label for word, (label, _) in _FILTERS.items()}
    return fragment(
        choices(requested, "Which requests", "only", filters, only),
        table("Requests", HEADS, rows, "None like that." if only else HINT),
        pages(requested, "before", found[ON_A_PAGE - 1].seq if len(found) > ON_A_PAGE else None, only=only),
    )


def _noticed(logged: LoggedRequest) -> Html:
    unread = None
    if logged.unread_fields:
        names = ", ".join(logged.unread_fields)
        unread = element("span", pill("unread", Tone.WARNING), " ", element("code", names), class_="flag")
    fault = None
    if logged.fault_id is not None:
        fault = element("span", pill("fault", Tone.BUSY), " ", identifier(logged.fault_id), class_="flag")
    return fragment(unread, fault)
