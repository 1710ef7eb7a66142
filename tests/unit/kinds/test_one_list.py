"""A thousand objects of a kind of record are looked at by one list of the organization, and none by itself."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import JsonValue

from relay_client import Cloud
from relay_operator.engine.unclaimed_ids import UnclaimedIds
from relay_operator.flows.managed.resource import Found, Look
from relay_operator.kinds import KINDS
from relay_operator.kinds.records import Records
from relay_operator.kinds.sshkey import SshKeys
from tests.unit.client.scripted import Reply, scripted_server
from tests.unit.kinds.given import parts

MANY = 1_000


def kinds_of_records(kind: type[Any] = Records) -> Iterator[type[Any]]:
    """All that `KINDS` has: whoever adds one is tested as well."""
    for derived in kind.__subclasses__():
        yield from kinds_of_records(derived)
        if "definition" in vars(derived):
            yield derived


def row(number: int) -> dict[str, JsonValue]:
    """A record, by whatever name its kind has for its id, with what a kind requires."""
    told: dict[str, JsonValue] = dict.fromkeys(("id", "userId", "nodeId", "name"), f"rec-{number}")
    of_a_key: dict[str, JsonValue] = {"keyPrefix": "or_", "scopes": [], "createdAt": "2026-03-01T12:00:00Z"}
    return told | of_a_key | {"role": "member", "cents": 0}


def test_every_kind_of_record_is_among_all_kinds() -> None:
    names = {kind.definition.kind for kind in kinds_of_records()}
    assert {"SshKey", "OrganizationMember", "ApiKey"} <= names <= {kind.name for kind in KINDS}


def page(*numbers: int, cursor: str = "") -> Reply:
    return Reply(body=json.dumps({"items": [row(number) for number in numbers], "nextCursor": cursor}).encode())


PARTS = parts()


@pytest.mark.parametrize("kind", [*kinds_of_records()], ids=lambda kind: kind.__name__)
async def test_a_record_on_a_later_page_is_not_gone(kind: type[Any]) -> None:
    resource = kind(PARTS)
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(page(0, cursor="a"), page(1, cursor="b"), page(2))
        assert (await resource.observe(cloud, "rec-2", None, Look.EXACT)).id == "rec-2"


async def test_a_lost_create_is_found_on_a_later_page() -> None:
    keys = SshKeys(PARTS)
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(page(0, cursor="a"), page(1))
        found = await keys.find(cloud, "rec-1", UnclaimedIds())
    assert isinstance(found, Found)
    assert found.resource.id == "rec-1"


@pytest.mark.parametrize("kind", [*kinds_of_records()], ids=lambda kind: kind.__name__)
async def test_a_thousand_records_are_looked_at_by_lists_alone(kind: type[Any]) -> None:
    resource = kind(PARTS)
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(page(*range(MANY)))
        seen = [await resource.observe(cloud, f"rec-{number}", None, Look.ROUTINE) for number in range(MANY)]
        first = list(server.targets)
        seen += [await resource.observe(cloud, f"rec-{number}", None, Look.ROUTINE) for number in range(MANY)]
    assert [each.id for each in seen] == [f"rec-{number}" for number in range(MANY)] * 2
    assert server.targets == first
    assert len(first) == len(set(first))
    assert not [target for target in first if "rec-" in target]
