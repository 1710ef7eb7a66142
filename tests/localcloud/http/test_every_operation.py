"""Bad input to every operation of `/openapi.json`: the error that the specification has for it, and nothing written."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from tests.localcloud.http.values import fitting, resolved, unfitting
from tests.localcloud.support.everything import Everything, Operation, everything
from tests.localcloud.support.server import Answer, request
from tests.support.eventually import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.localcloud.support.server import Server

BROKEN = {
    "cut off": b'{"name": ',
    "an array": b"[]",
    "a string": b'"name"',
    "a number": b"1",
    "null": b"null",
    "a form": b"name=a",
    "two documents": b"{}{}",
    "NaN": b'{"x": NaN}',
    "beyond doubles": b'{"x": 1e400}',
    "beyond 64 bits": b'{"x": ' + b"9" * 30 + b"}",
    "10,000 digits": b'{"x": ' + b"9" * 10_000 + b"}",
    "invalid UTF-8": b'{"x": "\xff\xfe"}',
    "UTF-16": '{"x": 1}'.encode("utf-16"),
    "a lone surrogate": b'{"x": "\\ud800"}',
    "a NUL in a key": b'{"\\u0000": 1}',
    "deep arrays": b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep objects": b'{"x": ' + b'{"a":' * 40_000 + b"1" + b"}" * 40_001,
}
ODD_IDS = ["%00", "%ff%fe", "%20", "'%20OR%201=1%20--", "%F0%9F%92%A5", "x" * 5_000, "..%2f..%2fetc", "null", "-1"]
BAD_PAGES = ["limit=0", "limit=-1", "limit=100000", "limit=x", "limit=1.5", "limit=", f"limit={10**30}"]
BAD_PAGES += ["limit=1_0", "limit=1.0", "limit=%2B5", "limit=%201"]
BAD_CURSORS = ["x", "%00", "%ff", "=", "x" * 5_000, "bnVsbA==", "e30=", "MQ=="]
HUGE: tuple[Any, ...] = ("x" * 100_000, ["x" * 63] * 1_000, {f"k{number}": "v" for number in range(1_000)}, 2**62)
GLOBAL = {"/v1/inference/models/{modelId}", "/v1/models/{id}"}
"""What stands in these paths belongs to nobody."""


@pytest_asyncio.fixture
async def known(server: Server) -> Everything:
    """An organization that has one of everything, for each test."""
    return await everything(server)


@dataclass(frozen=True)
class Aimed:
    """An operation, what stands in its path, and a credential that may call it."""

    operation: Operation
    path: dict[str, str]
    key: str

    async def send(self, known: Everything, **more: Any) -> Answer:
        return await known.call(self.operation, self.path, key=self.key, **more)


async def aimed(known: Everything, operation: Operation) -> Aimed:
    """The operation at something that exists, with a credential that may call it."""
    path = await known.path(operation)
    organization = known.organization
    for key in (organization.api_key, organization.user_session_token):
        answer = await known.call(operation, path, key=key, raw=b"{")
        if answer.status not in {401, 403}:
            return Aimed(operation, path, key)
    raise AssertionError(f"nobody may call {operation.name}: {answer.raw!r}")


def assert_refused(operation: Operation, answer: Answer, status: int, told: object) -> None:
    """The error has the shape of its port, and says what is wrong without repeating it at length."""
    where = f"{operation.name} with {str(told)[:80]}: {answer.status} {answer.raw[:200]!r}"
    assert answer.status == status, where
    error = answer.body["error"]
    assert sorted(answer.body) in (["code", "error"], ["error"], ["error", "type"]), where
    assert (sorted(error) == ["code", "message", "type"]) if isinstance(error, dict) else error, where
    assert len(answer.raw) < 1000, where


async def state(known: Everything) -> Any:
    """All that is kept but when keys were last used and what the audit log says: a refused call writes them too."""
    tables = (await known.organization.server.ok("GET", "/export"))["tables"]
    return {**tables, "audit": None, "api_keys": [{**row, "last_used_at": None} for row in tables["api_keys"]]}


def with_bodies(known: Everything) -> Iterator[Operation]:
    """Every operation that reads JSON."""
    return (operation for operation in known.operations() if operation.body is not None)


async def test_every_field_of_every_body_is_checked(known: Everything) -> None:
    for operation in with_bodies(known):
        target = await aimed(known, operation)
        schema = resolved(operation.body or {}, known.document)
        body = fitting(schema, known.document)
        before = await state(known)
        for field, shape in schema.get("properties", {}).items():
            required = field in schema.get("required", ())
            for value in unfitting(shape, known.document):
                if value is None and not required:
                    continue
                sent = json.dumps({**body, field: value}).encode()
                assert_refused(operation, await target.send(known, raw=sent), 400, {field: value})
            if required:
                missing = {name: value for name, value in body.items() if name != field}
                answer = await target.send(known, raw=json.dumps(missing).encode())
                assert_refused(operation, answer, 400, f"{field} missing")
        assert await state(known) == before, operation.name
    assert "Traceback" not in known.organization.server.log


async def test_a_body_that_is_no_object_is_400_everywhere(known: Everything) -> None:
    for operation in with_bodies(known):
        target = await aimed(known, operation)
        before = await state(known)
        for name, raw in BROKEN.items():
            assert_refused(operation, await target.send(known, raw=raw), 400, name)
        if operation.description["requestBody"].get("required"):
            assert_refused(operation, await target.send(known, raw=b""), 400, "nothing")
        assert await state(known) == before, operation.name
    assert "Traceback" not in known.organization.server.log


async def test_huge_values_and_unknown_fields_end_in_no_500(known: Everything) -> None:
    for operation in with_bodies(known):
        target = await aimed(known, operation)
        schema = resolved(operation.body or {}, known.document)
        body = fitting(schema, known.document)
        for field in (*schema.get("properties", {}), "surprise"):
            for value in HUGE:
                answer = await target.send(known, raw=json.dumps({**body, field: value}).encode())
                assert answer.status < 500 or answer.status == 503, (operation.name, field, answer.raw[:200])
                if answer.status >= 400:
                    assert_refused(operation, answer, answer.status, {field: value})
    assert "Traceback" not in known.organization.server.log


async def test_what_belongs_to_another_organization_cannot_be_reached(known: Everything) -> None:
    other = await everything(known.organization.server)
    for operation in known.operations():
        path = await other.path(operation)
        body = {} if operation.body is None else {"raw": json.dumps(fitting(operation.body, known.document)).encode()}
        before = await state(known)
        if "orgId" in path:
            assert_refused(operation, await known.call(operation, path, **body), 403, "another organization")
        foreign = {**path, "orgId": known.organization.id}
        if owned_by_somebody(operation):
            assert_refused(operation, await known.call(operation, foreign, **body), 404, "another's")
        if "orgId" in path or owned_by_somebody(operation):
            assert await state(known) == before, operation.name
    assert "Traceback" not in known.organization.server.log


def owned_by_somebody(operation: Operation) -> bool:
    """Whether something in the path, beside the organization, belongs to one; a token belongs to whoever has it."""
    own = operation.template.replace("{orgId}", "").replace("{modelId}", "").replace("{token}", "")
    return "{" in own and operation.template not in GLOBAL


async def test_odd_ids_are_refused_in_every_place_of_every_path(known: Everything) -> None:
    for operation in known.operations():
        path = await known.path(operation)
        for parameter in path:
            for odd in ODD_IDS:
                answer = await known.call(operation, {**path, parameter: odd})
                if answer.status == 200:
                    assert parameter == "modelId", operation.name  # any model may get backends
                else:
                    assert answer.status in ({403, 404} if parameter == "orgId" else {400, 403, 404}), (
                        operation.name,
                        odd,
                    )
                    assert_refused(operation, answer, answer.status, odd)
    assert "Traceback" not in known.organization.server.log


async def test_pages_that_make_no_sense_are_400_in_every_list(known: Everything) -> None:
    paged = 0
    for operation in known.operations():
        names = {parameter["name"] for parameter in operation.description.get("parameters", ())}
        queries = (BAD_PAGES if "limit" in names else []) + [
            f"{name}={cursor}" for name in names & {"cursor", "after"} for cursor in BAD_CURSORS
        ]
        if not queries:
            continue
        paged += 1
        path = await known.path(operation)
        for query in queries:
            bent = replace(operation, template=f"{operation.template}?{query}")
            assert_refused(operation, await known.call(bent, path), 400, query)
    assert paged >= 5
    assert "Traceback" not in known.organization.server.log


async def test_an_altered_cursor_and_that_of_another_list_are_400(known: Everything) -> None:
    organization = known.organization
    for name in ("first", "second"):
        await organization.ok("POST", "/v1/orgs/{org}/clusters/create", {"name": name, "gpuModelId": "l40s"})
    page = await organization.ok("GET", "/v1/orgs/{org}/clusters?limit=1")
    cursor: str = page["nextCursor"]
    swapped = [cursor[:at] + ("A" if cursor[at] != "A" else "B") + cursor[at + 1 :] for at in range(len(cursor))]
    altered = [
        *swapped,
        cursor + "!",
        cursor + "%0A",
        cursor + "=",
        "!" + cursor,
        cursor[:-1],
        cursor * 2,
        "%20" + cursor,
    ]
    for bent in altered:
        answer = await organization.call("GET", f"/v1/orgs/{{org}}/clusters?cursor={bent}")
        assert answer.refusal == (400, "invalid_request"), bent
    for operation in known.operations():
        names = {parameter["name"] for parameter in operation.description.get("parameters", ())}
        if "cursor" in names and operation.template != "/v1/orgs/{orgId}/clusters":
            bent_query = replace(operation, template=f"{operation.template}?cursor={cursor}")
            assert_refused(operation, await known.call(bent_query, await known.path(operation)), 400, cursor)


@pytest.mark.parametrize("length", [10_000, 70_000, 1_000_000])
async def test_over_long_paths_and_headers_are_refused_and_the_server_goes_on(server: Server, length: int) -> None:
    for port in ("managementUrl", "inferenceUrl", "gatewayUrl"):
        address = server.ready[port].removeprefix("http://")
        for raw in (
            b"GET /v1/" + b"x" * length + b" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            b"GET /v1/whoami?" + b"x" * length + b" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            b"GET /v1/whoami HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: " + b"x" * length + b"\r\n\r\n",
        ):
            status = await first_status(address, raw)
            assert status is None or 400 <= status < 500, (port, raw[:60], status)
        assert (await request("GET", server.ready[port] + "/v1/nothing")).status in {401, 404}
    assert "Traceback" not in server.log


async def first_status(address: str, raw: bytes) -> int | None:
    """The status of the first answer to these bytes; None where the connection was closed without one."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(raw)
        line = await asyncio.wait_for(reader.readline(), PATIENCE_SECONDS)
        return int(line.split()[1]) if line else None
    except ConnectionError:
        return None
    finally:
        writer.close()
