"""The page of the outbox: the e-mails that the cloud would have sent."""

from typing import Final

from sqlalchemy import RowMapping, select
from starlette.responses import Response

from relay_localcloud.console.markup import Html, element, fragment
from relay_localcloud.console.parts import nothing, pages
from relay_localcloud.console.reading import Reading
from relay_localcloud.console.secrets import without_secrets
from relay_localcloud.console.view import CurrentView
from relay_localcloud.console.wording import counted, moment
from relay_localcloud.http.routing import Router
from relay_localcloud.kernel import tables
from relay_localcloud.kernel.store import Tx

router = Router()

PATH: Final = "/console/outbox"
ON_A_PAGE: Final = 25
_HINT: Final = (
    "No e-mail was sent. Invites send one, and so does the end of a workload that ran out of money 7 days before."
)


@router.get(PATH)
async def outbox_page(view: CurrentView) -> Response:
    """E-mails, newest first; the tokens in them are left to `GET /_localcloud/outbox`."""
    return view.answer("Outbox", _content)


def _content(reading: Reading) -> Html:
    requested, mail = reading.requested, tables.outbox.c
    before = requested.number("before")
    query = select(tables.outbox).order_by(mail.sequence.desc()).limit(ON_A_PAGE + 1)
    if requested.organization_id is not None:
        query = query.where(mail.organization_id == requested.organization_id)
    if before is not None:
        query = query.where(mail.sequence < before)
    found = list(reading.tx.connection.execute(query).mappings())
    letters = [_letter(reading.tx, row) for row in found[:ON_A_PAGE]]
    older = requested.to(PATH, before=found[ON_A_PAGE - 1]["sequence"]) if len(found) > ON_A_PAGE else None
    return fragment(
        element("p", f"{counted(len(letters), 'e-mail')} on this page.", class_="unseen", aria_live="polite"),
        element("ul", letters, class_="letters") if letters else nothing(_HINT),
        pages(requested.to(PATH) if before is not None else None, older),
    )


def _letter(tx: Tx, row: RowMapping) -> Html:
    return element(
        "li",
        element("h2", row["subject"]),
        element("p", f"To {row['recipient']} · ", moment(row["at"], tx.now)),
        element("p", without_secrets(row["body"]), class_="body"),
        id=f"letter-{row['sequence']}",
    )
