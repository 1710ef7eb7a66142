"""The page of the outbox: the e-mails that the cloud would have sent."""

from typing import Final

from sqlalchemy import RowMapping

from relay_localcloud.console.markup import Html, element, fragment
from relay_localcloud.console.parts import nothing
from relay_localcloud.console.reading import Reading
from relay_localcloud.console.secrets import without_secrets
from relay_localcloud.console.wording import counted, moment
from relay_localcloud.kernel import tables
from relay_localcloud.kernel.store import Tx

PATH: Final = "/console/outbox"
ON_A_PAGE: Final = 25
_HINT: Final = (
    "No e-mail was sent. Invites send one, and so does the end of a workload that ran out of money 7 days before."
)


def content(reading: Reading) -> Html:
    """E-mails, newest first; the tokens in them are left to `GET /_localcloud/outbox`."""
    found, others = reading.page(tables.outbox, ON_A_PAGE)
    letters = [_letter(reading.tx, row) for row in found]
    return fragment(
        element("p", f"{counted(len(letters), 'e-mail')} on this page.", class_="unseen", aria_live="polite"),
        element("ul", letters, class_="letters") if letters else nothing(_HINT),
        others,
    )


def _letter(tx: Tx, row: RowMapping) -> Html:
    return element(
        "li",
        element("h2", row["subject"]),
        element("p", f"To {row['recipient']} · ", moment(row["at"], tx.now)),
        element("p", without_secrets(row["body"]), class_="body"),
        id=f"letter-{row['sequence']}",
    )
