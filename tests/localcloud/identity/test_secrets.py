"""Tokens, environments and arguments are shown to who may change what has them, and to nobody else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.localcloud.support import clusters, deployments
from tests.localcloud.support.people import session_of

if TYPE_CHECKING:
    from tests.localcloud.support.server import Answer, Organization

PASSWORD = "a-password-of-theirs"
ENV = {"PASSWORD": PASSWORD}
ARGUMENT = "an-argument-of-theirs"
READING = {
    "clusters": ("clusters:read",),
    "deployments": ("clusters:read", "clusters:write"),
}
WRITING = {
    "clusters": ("clusters:read", "clusters:write"),
    "deployments": ("clusters:read", "org:write"),
}
ROLES = {"clusters": {"owner", "admin", "member"}, "deployments": {"owner", "admin"}}


async def made(organization: Organization, kind: str) -> list[str]:
    """Every path that shows it, first the one that shows most."""
    if kind == "clusters":
        cluster = await clusters.create(organization, envVars=ENV)
        path = f"/v1/clusters/{cluster['id']}"
        return [f"{path}/detail", path, "/v1/orgs/{org}/clusters"]
    deployment = await deployments.create(
        organization, env=ENV, extraArgs=["--api-key", ARGUMENT], replicasDesired=0, acknowledgeLaneJoin=True
    )
    return [f"{deployments.DEPLOYMENTS}/{deployment['id']}", deployments.DEPLOYMENTS]


async def seen(organization: Organization, paths: list[str], key: str) -> bool:
    """Whether somebody with this credential sees secrets at any of these paths."""
    answers = [await organization.call("GET", path, key=key) for path in paths]
    assert [answer.status for answer in answers] == [200] * len(paths)
    return any(_has_secrets(answer) for answer in answers)


def _has_secrets(answer: Answer) -> bool:
    return any(each in answer.raw for each in (PASSWORD.encode(), ARGUMENT.encode(), b"deployToken", b"dt_"))


@pytest.mark.parametrize("role", ["owner", "admin", "member", "viewer"])
@pytest.mark.parametrize("kind", ["clusters", "deployments"])
async def test_who_may_not_write_by_their_role_sees_no_secrets(
    organization: Organization, kind: str, role: str
) -> None:
    paths = await made(organization, kind)
    person = await session_of(organization, role)
    sees = role in ROLES[kind]
    assert await seen(organization, paths, person.token) is sees
    home = await person.ok("POST", "/v1/orgs", {"name": "Own"})
    await person.ok("PATCH", "/v1/me/profile", {"defaultOrganizationId": home["id"]})
    assert await seen(organization, paths[:1], person.token) is sees


@pytest.mark.parametrize("kind", ["clusters", "deployments"])
async def test_who_may_not_write_by_their_key_sees_no_secrets(organization: Organization, kind: str) -> None:
    paths = await made(organization, kind)
    for scopes, sees in ((READING[kind], False), (WRITING[kind], True)):
        create = {"name": "narrow", "scopes": list(scopes)}
        key = (await organization.ok("POST", "/v1/orgs/{org}/api-keys/create", create))["key"]
        assert await seen(organization, paths, key) is sees, scopes
