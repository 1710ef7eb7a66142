"""The page of requests: what was asked of the APIs, what became of it, and what of it nobody read."""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from itertools import islice
from typing import Final

from starlette.responses import Response

from relay_localcloud.console.markup import Html, element, fragment
from relay_localcloud.console.parts import Row, identifier, links, pages, table
from relay_localcloud.console.reading import Reading
from relay_localcloud.console.secrets import without_secrets
from relay_localcloud.console.view import CurrentView
from relay_localcloud.console.wording import Tone, moment, pill
from relay_localcloud.http.requestlog import LoggedRequest
from relay_localcloud.http.routing import Router

router = Router()

PATH: Final = "/console/requests"
ON_A_PAGE: Final = 50
HEADS: Final = ("When", "Request", "Status", "Noticed")
HINT: Final = "No request yet. Send one to the management or the inference URL with the key of the ready line."

_FILTERS: Final[Mapping[str, tuple[str, Callable[[LoggedRequest], bool]]]] = {
    "unread": ("With unread fields", lambda logged: bool(logged.unread_fields)),
    "refused": ("Refused", lambda logged: logged.status is not None and logged.status >= HTTPStatus.BAD_REQUEST),
    "faults": ("Met by a fault", lambda logged: logged.fault_id is not None),
}
"""By the parameter `only`: its label, and which requests it is about."""


@router.get(PATH)
async def requests_page(view: CurrentView) -> Response:
    """The newest requests; the control interface's and the console's own are not among them."""
    return view.answer("Requests", _content)


def newest(reading: Reading, count: int, *, before: int | None = None, only: str | None = None) -> list[LoggedRequest]:
    """The newest requests of the chosen organization, or of all."""
    found = reading.cloud.requests.before(before, reading.requested.organization_id)
    if only is not None and only in _FILTERS:
        found = filter(_FILTERS[only][1], found)
    return list(islice(found, count))


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


def _content(reading: Reading) -> Html:
    requested = reading.requested
    before, only = requested.number("before"), requested.word("only")
    found = newest(reading, ON_A_PAGE + 1, before=before, only=only)
    filters = [("All", requested.to(PATH), only not in _FILTERS)]
    filters += [(label, requested.to(PATH, only=word), only == word) for word, (label, _) in _FILTERS.items()]
    rows = [shown(reading, each) for each in found[:ON_A_PAGE]]
    older = None
    if len(found) > ON_A_PAGE:
        older = requested.to(PATH, only=only, before=found[ON_A_PAGE - 1].seq)
    return fragment(
        links("Which requests", filters),
        table("Requests", HEADS, rows, "None like that." if only else HINT),
        pages(requested.to(PATH, only=only) if before is not None else None, older),
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
