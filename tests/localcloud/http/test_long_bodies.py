"""A request whose body takes its time is refused if its caller has lost their rights by the end of it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from relay_localcloud.http import authentication
from relay_localcloud.http.authentication import LONG_SECONDS, Authentication, bearer
from relay_localcloud.http.errors import ApiError, management_error
from relay_localcloud.http.exchange import Exchange, attach, exchange_of
from relay_localcloud.http.principal import ADMINS, Rule
from relay_localcloud.http.turns import Turns
from relay_localcloud.identity import credentials, members, organizations
from relay_localcloud.kernel.store import Store
from tests.localcloud.support.inference import CHAT, chat
from tests.localcloud.support.server import request
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.types import Message, Receive, Scope, Send

    from tests.localcloud.support.server import Answer, Organization

POD = {"image": "nginx", "gpuModelId": "h100"}
PODS = "/v1/pods"

pytestmark = pytest.mark.usefixtures("no_faults_left")


@dataclass(frozen=True)
class Begun:
    """A request that has been admitted; its body ends when told to, and is read only after LONG_SECONDS."""

    _answer: asyncio.Task[Answer]
    _rest: asyncio.Event

    async def ended(self) -> Answer:
        """The answer to the whole of it."""
        self._rest.set()
        return await self._answer


async def begun(organization: Organization, path: str, body: object, key: str) -> Begun:
    """A request of which the server has seen no more than the beginning."""
    server, rest = organization.server, asyncio.Event()
    whose = {"organizationId": organization.id, "operation": f"POST {path}"}
    made = await server.ok("POST", "/faults", {**whose, "effect": {"delaySeconds": LONG_SECONDS + 0.5}})

    async def pieces() -> AsyncIterator[bytes]:
        text = json.dumps(body).encode()
        yield text[:1]
        await rest.wait()
        yield text[1:]

    url = server.ready["inferenceUrl" if path == CHAT else "managementUrl"] + path
    headers = {"Content-Type": "application/json"}
    answer = asyncio.create_task(request("POST", url, raw=pieces(), key=key, headers=headers))

    async def seen() -> int:
        faults = (await server.ok("GET", "/faults"))["items"]
        return sum(fault["seen"] for fault in faults if fault["id"] == made["id"])

    await eventually(seen, lambda count: count == 1)
    return Begun(answer, rest)


async def another_key(organization: Organization) -> tuple[str, str]:
    made = await organization.ok("POST", "/v1/orgs/{org}/api-keys/create", {"name": "stolen"})
    return made["id"], made["key"]


async def test_it_is_answered_as_ever_if_the_key_is_still_valid(organization: Organization) -> None:
    long = await begun(organization, PODS, POD, organization.api_key)
    assert (await long.ended()).status == 200


async def test_a_key_that_is_revoked_meanwhile_creates_nothing(organization: Organization) -> None:
    key_id, key = await another_key(organization)
    long = await begun(organization, PODS, POD, key)
    await organization.ok("DELETE", f"/v1/orgs/{{org}}/api-keys/{key_id}")
    assert (await long.ended()).refusal == (401, "unauthorized")
    assert (await organization.ok("GET", "/v1/orgs/{org}/billing/usage"))["burnPerHourCents"] == 0


async def test_a_key_that_is_revoked_meanwhile_asks_no_model(organization: Organization) -> None:
    key_id, key = await another_key(organization)
    long = await begun(organization, CHAT, chat("hello"), key)
    await organization.ok("DELETE", f"/v1/orgs/{{org}}/api-keys/{key_id}")
    assert (await long.ended()).body["error"]["code"] == "revoked_api_key"


async def test_a_role_that_is_taken_meanwhile_counts_no_more(organization: Organization) -> None:
    made = await organization.server.ok("POST", f"/orgs/{organization.id}/session", {"role": "member"})
    long = await begun(organization, PODS, POD, made["userSessionToken"])
    path = f"/v1/orgs/{{org}}/members/{made['userId']}"
    await organization.ok("PATCH", path, {"role": "viewer"}, key=organization.user_session_token)
    assert (await long.ended()).refusal == (403, "forbidden")


async def test_a_role_in_an_organization_elsewhere_that_is_taken_meanwhile_counts_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(authentication, "LONG_SECONDS", 0)
    store = Store.ephemeral()
    with store.transaction() as tx:
        home, away = organizations.found(tx, "home", 0), organizations.found(tx, "away", 0)
        members.join(tx, away.organization_id, home.user_id, "admin")

    async def app(scope: Scope, _: Receive, __: Send) -> None:
        exchange = exchange_of(scope)
        assert exchange.principal is not None
        exchange.principal.check(Rule(frozenset(), ADMINS), None).admit(away.organization_id, "deployment", "dep_x")
        with store.transaction() as tx:
            members.change_role(tx, away.organization_id, home.user_id, "viewer")
        with pytest.raises(ApiError, match="Your rights changed"):
            exchange.body_came()

    session = f"Bearer {home.user_session_token}".encode()
    scope = {"type": "http", "path": "/v1/x", "headers": [(b"authorization", session)]}
    attach(scope, Exchange("PATCH /v1/x", {}))
    layer = Authentication(app, store, bearer, credentials.authenticate, management_error, Turns())
    await layer(scope, _nothing, _nowhere)
    store.close()


async def _nothing() -> Message:
    return {"type": "http.disconnect"}


async def _nowhere(message: Message) -> None:
    raise AssertionError(message)
