"""Answers requests for pages: 204 without content if the browser's version is still current."""

import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Annotated, Final

from sqlalchemy import select
from starlette.requests import Request
from starlette.responses import Response

from relay_localcloud.cloud import Cloud, CurrentCloud
from relay_localcloud.console.pages import PAGES, Page
from relay_localcloud.console.reading import Reading
from relay_localcloud.console.refused import NOT_REFUSED, Refused
from relay_localcloud.console.rendering import render
from relay_localcloud.console.requested import Requested
from relay_localcloud.http.arguments import Depends
from relay_localcloud.http.errors import ApiError
from relay_localcloud.identity import organizations
from relay_localcloud.kernel import tables
from relay_localcloud.kernel.instants import SECOND
from relay_localcloud.kernel.store import Tx

_THIS_RUN: Final = secrets.token_hex(4)
_SHOWN_ORGANIZATIONS: Final = 100
_SECONDS_AN_AGE_HOLDS: Final = 10

HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "same-origin",  # with a stricter one, a form's Origin would be null
    "X-Content-Type-Options": "nosniff",
}

NOTICES: Final = {
    "advanced": "The clock was moved on, and everything that fell due was done.",
    "clock": "The clock was changed.",
    "gap": "The gap is settled.",
    "node-down": "The node no longer reports. What runs on it is interrupted when the grace period ends.",
    "node-up": "The node reports again, and what was interrupted on it runs again.",
    "node-added": "The node was added. Workloads that waited for room get it.",
    "node-removed": "The node is gone for good. Pods and VMs on it ended; replicas are replaced if there is room.",
    "orphan-ended": "The container ends in a moment, and its volume is deleted.",
    "created": "It is created, and runs in a moment if there is room.",
    "key-added": "The SSH key was added. The SSH gateway accepts it for everything that this organization runs.",
    "key-removed": "The SSH key was removed, and its logins end.",
    "happened": "The event was sent to the workload.",
    "deposit-processing": "The card is being charged. The balance rises once the processor confirms the charge.",
    "deposit-succeeded": "This deposit was made before, and is in the balance.",
    "deposit-failed": "The card was declined: nothing is credited.",
    "deposit-requires_action": "The card's owner must confirm the charge: POST /_localcloud/payments/{id}/confirm.",
    "setting": "The setting was changed.",
    "restart": "It is being started.",
    "stop": "It is stopped, or will be in a moment.",
    "scale": "The number of replicas was changed.",
    "terminate": "It is terminated; a deployment first ends what is under way.",
    "replayed": "The delivery is sent again.",
    "fault-made": "The fault is set. It applies from now on.",
    "fault-removed": "The fault was removed.",
    "faults-removed": "All faults were removed.",
}
"""What a page says after an action, by the parameter `done`; a page shows no other texts for it."""


@dataclass(frozen=True)
class View:
    """One request for a page."""

    cloud: Cloud
    requested: Requested
    known_version: str | None

    def answer(self, page: Page) -> Response:
        """The page; 204 if the browser has the current version."""
        version = _version(self.cloud)
        if version == self.known_version:
            return Response(status_code=204, headers=HEADERS)
        try:
            return self._page(page, version)
        except ApiError as error:
            # Every link would keep an organization that does not exist, and this page an object that does not.
            at = Requested(page.under or self.requested.path)
            return replace(self, requested=at).alone(Refused(error.message), error.status)

    def refusal(self, refused: Refused, status: int) -> Response:
        """The page of a form, with the typed values and the error; a page with the error alone if that one fails."""
        page = PAGES.get(self.requested.path)
        if page is not None:
            with suppress(ApiError):
                return self._page(page, "", refused, status)
        return self.alone(refused, status)

    def answered(self, page: Page, sent: Refused, answer: Mapping[str, object]) -> Response:
        """The page of a form, with the typed values and the answer."""
        try:
            return self._page(page, _version(self.cloud), sent, more=answer)
        except ApiError as error:
            return self.alone(Refused(error.message), error.status)

    def _page(
        self,
        page: Page,
        version: str,
        refused: Refused = NOT_REFUSED,
        status: int = 200,
        more: Mapping[str, object] = MappingProxyType({}),
    ) -> Response:
        with self.cloud.store.transaction() as tx:
            if self.requested.organization_id is not None:
                organizations.organization(tx, self.requested.organization_id)
            frame = self._frame(tx, version, refused)
            shown = page.content(Reading(tx, self.cloud, self.requested))
        return _response(page.template, {**frame, "title": page.label, **shown, **more}, status)

    def alone(self, refused: Refused, status: int) -> Response:
        """A page with the error alone."""
        with self.cloud.store.transaction() as tx:
            frame = self._frame(tx, "", refused)
        return _response("refusal.html", {**frame, "title": "That did not work"}, status)

    def _frame(self, tx: Tx, version: str, refused: Refused) -> dict[str, object]:
        """The values of the frame around every page."""
        path = self.requested.path
        return {
            "requested": self.requested,
            "version": version,
            "refused": refused,
            "clock": self.cloud.clock.state,
            "now": tx.now,
            "organizations": _organizations(tx, self.requested.organization_id),
            "notice": NOTICES.get(self.requested.parameters.get("done", "")),
            "pages": {address: page.label for address, page in PAGES.items() if page.under is None},
            "way": (PAGES[path].under if path in PAGES else None) or path,
        }


async def _view(request: Request, cloud: CurrentCloud) -> View:
    return View(cloud, Requested.by(request, cloud.public_url), request.headers.get("x-console-version"))


CurrentView = Annotated[View, Depends(_view)]
"""The type of an endpoint's parameter for the view."""


def _version(cloud: Cloud) -> str:
    """A version that stays the same for as long as every page would."""
    ages = cloud.clock.now() // max(round(_SECONDS_AN_AGE_HOLDS * SECOND * cloud.clock.state.rate), 1)
    return f"{_THIS_RUN}-{cloud.store.revision}-{cloud.requests.last}-{ages}"


def _response(template: str, values: dict[str, object], status: int = 200) -> Response:
    return Response(render(template, values), status, HEADERS, "text/html; charset=utf-8")


def _organizations(tx: Tx, chosen: str | None) -> dict[str, str]:
    """The names of the newest organizations by id, and of the selected one."""
    organization = tables.organizations.c
    query = select(organization.id, organization.name).order_by(tables.FIRST_COME.desc()).limit(_SHOWN_ORGANIZATIONS)
    names = {row.id: row.name for row in tx.connection.execute(query)}
    if chosen is not None and chosen not in names:
        row = tx.connection.execute(select(organization.name).where(organization.id == chosen)).first()
        return names if row is None else {chosen: row.name, **names}
    return names
