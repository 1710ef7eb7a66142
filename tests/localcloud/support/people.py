"""People with sessions: signed up through the control interface, acting over raw HTTP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.localcloud.support.server import UNSENT, Answer, request

if TYPE_CHECKING:
    from tests.localcloud.support.server import Organization, Server


@dataclass(frozen=True)
class Person:
    """A user and the token of a session."""

    server: Server
    id: str
    email: str
    token: str

    async def call(self, method: str, path: str, body: object = UNSENT, **more: Any) -> Answer:
        """A request to the management API with the session."""
        return await request(method, self.server.url + path, body, key=self.token, **more)

    async def ok(self, method: str, path: str, body: object = UNSENT, **more: Any) -> Any:
        """The JSON of a request that must succeed."""
        answer = await self.call(method, path, body, **more)
        assert answer.status in {200, 204}, (method, path, answer.status, answer.raw)
        return answer.body


async def sign_up(server: Server, **body: object) -> Person:
    """Somebody who belongs to no organization yet; a known e-mail is signed in again."""
    made = await server.ok("POST", "/users", body)
    return Person(server, made["userId"], made["email"], made["userSessionToken"])


async def session_of(organization: Organization, role: str | None = None) -> Person:
    """The organization's owner, or a fresh member with a role."""
    opened = await organization.server.ok(
        "POST", f"/orgs/{organization.id}/session", {} if role is None else {"role": role}
    )
    token = opened["userSessionToken"]
    me = (await request("GET", organization.server.url + "/v1/me", key=token)).body
    return Person(organization.server, opened["userId"], me["user"]["email"], token)


async def invite(organization: Organization, email: str, role: str = "member", **more: object) -> str:
    """The token of an invite."""
    made = await organization.server.ok(
        "POST", f"/orgs/{organization.id}/invites", {"email": email, "role": role, **more}
    )
    assert sorted(made) == ["token"]
    return str(made["token"])
