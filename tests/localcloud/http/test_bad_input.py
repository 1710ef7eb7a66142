"""Nothing a caller sends ends in a 500: it is 400 in the one error shape, and the server goes on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.localcloud.support.everything import PUBLIC_KEY
from tests.localcloud.support.server import request

if TYPE_CHECKING:
    from tests.localcloud.support.server import Organization, Server

CREATE = "/v1/orgs/{org}/webhooks/create"
GOOD = b'{"name": "hook", "url": "http://127.0.0.1:9/"}'

BAD_BODIES = {
    "empty": b"",
    "blank": b"   ",
    "not JSON": b"name=hook",
    "cut off": GOOD[:-1],
    "two documents": GOOD + GOOD,
    "trailing comma": b'{"name": "hook",}',
    "an array": b"[]",
    "a string": b'"hook"',
    "a number": b"1",
    "null": b"null",
    "deep nesting": b'{"name": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep nesting in an unread field": GOOD[:-1] + b', "x": ' + b"[" * 5_000 + b"]" * 5_000 + b"}",
    "invalid UTF-8": b'{"name": "\xff\xfe", "url": "http://127.0.0.1:9/"}',
    "UTF-16": GOOD.decode().encode("utf-16"),
    "a NUL byte": b'{"name": "a\x00b", "url": "http://127.0.0.1:9/"}',
    "an escaped NUL": b'{"name": "a\\u0000b", "url": "http://127.0.0.1:9/"}',
    "an escaped NUL in a key": GOOD[:-1] + b', "a\\u0000b": 1}',
    "a lone surrogate": b'{"name": "\\ud800", "url": "http://127.0.0.1:9/"}',
    "a huge integer": GOOD[:-1] + b', "x": ' + b"9" * 30 + b"}",
    "a number of 10,000 digits": GOOD[:-1] + b', "x": ' + b"9" * 10_000 + b"}",
    "NaN": GOOD[:-1] + b', "x": NaN}',
    "Infinity": GOOD[:-1] + b', "x": -Infinity}',
    "a number beyond doubles": GOOD[:-1] + b', "x": 1e999}',
    "a field missing": b'{"name": "hook"}',
    "null in a required field": b'{"name": null, "url": "http://127.0.0.1:9/"}',
    "an integer for a string": b'{"name": 1, "url": "http://127.0.0.1:9/"}',
    "a boolean for a string": b'{"name": true, "url": "http://127.0.0.1:9/"}',
    "the snake_case spelling": b'{"name": "key", "expires_in_seconds": "x", "url": 1}',
}


@pytest.mark.parametrize("raw", BAD_BODIES.values(), ids=BAD_BODIES.keys())
async def test_a_bad_body_is_400(organization: Organization, raw: bytes) -> None:
    answer = await organization.call("POST", CREATE, raw=raw)
    assert answer.refusal == (400, "invalid_request")
    assert len(answer.body["error"]) < 500
    assert await organization.ok("GET", "/v1/orgs/{org}/webhooks") == {"items": []}


@pytest.mark.parametrize("raw", BAD_BODIES.values(), ids=BAD_BODIES.keys())
async def test_a_bad_body_is_400_on_the_control_interface_too(server: Server, raw: bytes) -> None:
    for method, path in (("POST", "/upstreams"), ("POST", "/faults"), ("PATCH", "/settings"), ("POST", "/import")):
        assert (await server.control(method, path, raw=raw)).refusal == (400, "invalid_request"), path


@pytest.mark.parametrize(
    "content_type",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/json; charset=latin-1", ""],
)
async def test_the_content_type_does_not_matter_where_the_body_parses(
    organization: Organization, content_type: str
) -> None:
    answer = await organization.call("POST", CREATE, raw=GOOD, headers={"Content-Type": content_type})
    assert answer.status == 200


@pytest.mark.parametrize("value", [True, "1", 1.5, [1], {"a": 1}])
async def test_integers_are_not_coerced(organization: Organization, value: object) -> None:
    body = {"name": "key", "expiresInSeconds": value}
    answer = await organization.call("POST", "/v1/orgs/{org}/api-keys/create", body)
    assert answer.refusal == (400, "invalid_request")
    assert answer.body["error"].startswith("expiresInSeconds: ")


async def test_the_sentence_names_the_field_and_never_repeats_the_value(organization: Organization) -> None:
    body = {"name": "hook", "url": "http://127.0.0.1:9/", "events": ["vm.running", {"secret": "hunter2"}]}
    answer = await organization.call("POST", CREATE, body)
    assert answer.body["error"].startswith("events.1: ")
    assert "hunter2" not in answer.raw.decode()


@pytest.mark.parametrize(
    ("method", "path", "refusal"),
    [
        ("GET", "/v1/nothing", (404, "not_found")),
        ("GET", "/v2/whoami", (404, "not_found")),
        ("GET", "/v1/whoami/", (404, "not_found")),
        ("GET", "/v1//whoami", (404, "not_found")),
        ("GET", "/v1/orgs//api-keys", (404, "not_found")),
        ("GET", "/v1/%00", (404, "not_found")),
        ("GET", "/v1/%ff%fe", (404, "not_found")),
        ("GET", "/docs", (404, "not_found")),
        ("POST", "/v1/whoami", (405, "method_not_allowed")),
        ("DELETE", "/v1/orgs/{org}", (405, "method_not_allowed")),
        ("PUT", CREATE, (405, "method_not_allowed")),
        ("GET", "/v1/orgs/%00", (403, "forbidden")),
        ("DELETE", "/v1/orgs/{org}/webhooks/%00%ff", (404, "not_found")),
        ("GET", "/v1/orgs/{org}/webhooks/x/deliveries?cursor=%00", (404, "not_found")),
        ("GET", "/v1/orgs/{org}/webhooks/x/deliveries?limit=99999999999999999999999", (400, "invalid_request")),
        ("GET", "/v1/orgs/{org}/webhooks/x/deliveries?limit=1&limit=x", (400, "invalid_request")),
    ],
)
async def test_a_bad_address_gets_the_one_error_shape(
    organization: Organization, method: str, path: str, refusal: tuple[int, str]
) -> None:
    assert (await organization.call(method, path)).refusal == refusal


async def test_an_encoded_slash_is_part_of_an_id(organization: Organization) -> None:
    made = await organization.ok("POST", "/v1/pods", {"image": "x"})
    assert (await organization.call("POST", f"/v1/vms/{made['id']}%2Fterminate")).status == 405
    assert (await organization.call("GET", f"/v1/vms/{made['id']}%2flogs")).refusal == (404, "not_found")
    assert (await organization.call("GET", "/v1%2Fwhoami")).refusal == (404, "not_found")
    assert (await organization.ok("GET", f"/v1/vms/{made['id']}"))["status"] == "deploying"


async def test_405_names_what_is_allowed(organization: Organization) -> None:
    answer = await organization.call("POST", "/v1/whoami")
    assert answer.headers["allow"] == "GET"


@pytest.mark.parametrize(
    ("size", "refusal"),
    [
        (2**18 - 1, (400, "invalid_request")),
        (2**18, (400, "invalid_request")),
        (2**18 + 1, (413, "payload_too_large")),
    ],
)
async def test_a_body_over_256_kib_is_413(organization: Organization, size: int, refusal: tuple[int, str]) -> None:
    around = len(b'{"name": ""}')
    answer = await organization.call("POST", CREATE, raw=b'{"name": "' + b"x" * (size - around) + b'"}')
    assert answer.refusal == refusal


POD = {"name": "bounded", "gpuModelId": "h100", "gpuCount": 1, "image": "nginx"}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"sshKeys": ["ssh-ed25519 AAAA"] * 101}, "sshKeys: at most 100 entries."),
        ({"sshKeys": [1] * 19_000}, "sshKeys.0: Input should be a valid string."),
        ({"envVars": {"A": "x" * (2**17 - 2)}}, ""),
        ({"envVars": {"A": "x" * (2**17 - 1)}}, ""),
        ({"envVars": {"A": "x" * 2**17}}, "envVars: "),
        ({f"unknown{number}": number for number in range(5_000)}, ""),
    ],
    ids=["too many items", "many that are wrong", "less environment", "most", "more", "many unread fields"],
)
async def test_what_is_sent_has_bounds(organization: Organization, more: dict[str, object], message: str) -> None:
    answer = await organization.call("POST", "/v1/pods", POD | more)
    if message:
        assert answer.refusal == (400, "invalid_request")
        assert answer.body["error"].startswith(message)
    else:
        assert answer.status == 200, answer.body


@pytest.mark.parametrize("beyond", [-1, 0, 1])
@pytest.mark.parametrize(
    ("path", "field", "most", "value"),
    [
        ("/v1/pods", "sshKeys", 100, PUBLIC_KEY),
        ("/v1/orgs/{org}/vms/create", "sshKeyIds", 100, "{key}"),
        ("/v1/orgs/{org}/vms/create", "preferredRegions", 32, "eu-west"),
        ("/v1/orgs/{org}/vms/create", "healthChecks", 32, "http"),
        ("/v1/orgs/{org}/vms/create", "kernelModules", 64, "nvidia_uvm"),
    ],
)
async def test_a_list_has_so_many_entries_and_no_more(
    organization: Organization, path: str, field: str, most: int, value: str, beyond: int
) -> None:
    made = await organization.ok("POST", "/v1/orgs/{org}/ssh-keys/create", {"name": "k", "publicKey": PUBLIC_KEY})
    body = POD if path == "/v1/pods" else {"name": "bounded"}
    answer = await organization.call("POST", path, {**body, field: [value.format(key=made["id"])] * (most + beyond)})
    if beyond <= 0:
        assert answer.status == 200, answer.body
    else:
        assert (answer.status, answer.body["error"]) == (400, f"{field}: at most {most} entries.")


@pytest.mark.parametrize("values", [19_999, 20_000, 20_001])
async def test_a_body_has_so_many_values_and_no_more(organization: Organization, values: int) -> None:
    body = {"name": "key", "more": [0] * (values - 2)}
    answer = await organization.call("POST", "/v1/orgs/{org}/api-keys/create", body)
    assert answer.status == (200 if values <= 20_000 else 400), answer.raw


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        (CREATE, [], "The body: it must be a JSON object."),
        ("/v1/pods", {"image": "x", "name": "a\nb"}, "name: must consist of printable characters."),
        (
            "/v1/inference/models/m/backends",
            {"provider": "bedrock", "ref": "r", "endpoint": "https://x.example/v1", "nativeFamilies": []},
            "nativeFamilies: List should have at least 1 item.",
        ),
    ],
)
async def test_a_refusal_has_no_words_of_the_library_that_reads_bodies(
    organization: Organization, path: str, body: object, message: str
) -> None:
    answer = await organization.call("POST", path, body)
    assert (answer.refusal, answer.body["error"]) == ((400, "invalid_request"), message)


async def test_the_server_has_met_no_defect(server: Server) -> None:
    for raw in BAD_BODIES.values():
        await request("POST", server.url + "/v1/pods", raw=raw, key=server.ready["apiKey"])
    assert "Traceback" not in server.log
    assert json.loads((await request("GET", server.url + "/openapi.json")).raw)
