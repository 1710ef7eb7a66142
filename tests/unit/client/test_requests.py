"""What a call puts on the wire, and what it never does."""

import json

import pytest

from relay_client import BadRequest, Cloud, Outcome, transport
from relay_client.operations import (
    CREATE_CLUSTER,
    CREATE_POD,
    CREATE_VM,
    GET_BALANCE,
    GET_VM,
    LIST_CLUSTERS,
    TERMINATE_VM,
)
from relay_wire.clusters import ClusterCreate
from relay_wire.pods import PodCreate
from relay_wire.vms import VmCreate
from tests.unit.client.conftest import KEY
from tests.unit.client.scripted import Reply, ScriptedServer

CREATED = Reply(201, b'{"id":"x","name":"x","status":"deploying"}')
WHOAMI = Reply(200, b'{"principalType":"api_key","organizationId":"org_9","organizationName":"n","scopes":[]}')


async def test_a_request_carries_the_key_and_plain_json(server: ScriptedServer) -> None:
    server.will(CREATED)
    async with Cloud(server.url, KEY, user_agent="relay-operator/1.2") as cloud:
        await cloud.call(CREATE_POD, PodCreate(image="busybox", env_vars={"A": "é"}, gpu_model_id="h100"))
    (seen,) = server.seen
    assert (seen.method, seen.target) == ("POST", "/v1/pods")
    assert seen.headers["authorization"] == f"Bearer {KEY}"
    assert seen.headers["content-type"] == "application/json"
    assert seen.headers["accept"] == "application/json"
    assert seen.headers["accept-encoding"] == "identity"
    assert seen.headers["user-agent"] == "relay-operator/1.2"
    assert json.loads(seen.body) == {
        "image": "busybox",
        "gpuModelId": "h100",
        "gpuCount": 1,
        "computeClass": "on_demand",
        "httpPort": 80,
        "public": False,
        "envVars": {"A": "é"},
        "volumeGb": 50,
    }


async def test_an_action_has_no_body(cloud: Cloud, server: ScriptedServer) -> None:
    server.will(Reply(200))
    await cloud.call(TERMINATE_VM, id="pod_1")
    assert server.seen[0].body == b""
    assert server.seen[0].headers["content-length"] == "0"
    assert "content-type" not in server.seen[0].headers


async def test_the_organization_is_learned_from_the_key_once(server: ScriptedServer) -> None:
    server.will(WHOAMI, CREATED)
    async with Cloud(server.url, KEY) as cloud:
        await cloud.call(CREATE_CLUSTER, ClusterCreate(name="llm"))
        await cloud.call(CREATE_VM, VmCreate(name="box"))
        assert await cloud.organization_id() == "org_9"
    assert server.targets == [
        "GET /v1/whoami",
        "POST /v1/orgs/org_9/clusters/create",
        "POST /v1/orgs/org_9/vms/create",
    ]


async def test_the_query_is_encoded(cloud: Cloud, server: ScriptedServer) -> None:
    server.will(Reply(200, b'{"items":[]}'))
    await cloud.call(LIST_CLUSTERS, query={"limit": 50, "cursor": "a+b/c=&d é"})
    assert server.targets == ["GET /v1/orgs/org_1/clusters?limit=50&cursor=a%2Bb%2Fc%3D%26d+%C3%A9"]


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("a/../b", "a%2F..%2Fb"),
        ("a b?c#d", "a%20b%3Fc%23d"),
        ("é", "%C3%A9"),
        ("50%2F", "50%252F"),
        ("{id}", "%7Bid%7D"),
    ],
)
async def test_an_id_stays_one_segment_of_the_path(given: str, sent: str, cloud: Cloud, server: ScriptedServer) -> None:
    server.will(Reply(200))
    await cloud.call(TERMINATE_VM, id=given)
    assert server.targets == [f"POST /v1/vms/{sent}/terminate"]


@pytest.mark.parametrize("given", ["", ".", ".."])
async def test_an_id_that_names_another_resource_is_refused(given: str, cloud: Cloud, server: ScriptedServer) -> None:
    with pytest.raises(BadRequest, match="cannot be the path parameter id") as refused:
        await cloud.call(TERMINATE_VM, id=given)
    assert refused.value.outcome is Outcome.NOT_SENT
    assert server.seen == []


async def test_a_path_below_the_base_url_is_kept(server: ScriptedServer) -> None:
    server.will(Reply(200, b'{"id":"x"}'))
    async with Cloud(f"{server.url}/gpu/cloud/", KEY) as cloud:
        await cloud.call(GET_VM, id="x")
    assert server.targets == ["GET /gpu/cloud/v1/vms/x"]


async def test_cookies_are_not_kept(cloud: Cloud, server: ScriptedServer) -> None:
    server.will(Reply(200, b'{"id":"x"}', headers={"Set-Cookie": "session=other-account"}))
    await cloud.call(GET_VM, id="x")
    await cloud.call(GET_VM, id="x")
    assert "cookie" not in server.seen[1].headers
    assert server.connections == 1


async def test_a_wrong_or_missing_parameter_is_an_error_of_the_caller(cloud: Cloud) -> None:
    with pytest.raises(TypeError, match=r"get_vm needs every parameter of /v1/vms/\{id\}"):
        await cloud.call(GET_VM)
    with pytest.raises(TypeError, match="get_vm has no path parameter pod"):
        await cloud.call(GET_VM, id="x", pod="y")
    with pytest.raises(TypeError, match="create_pod takes a PodCreate, not a VmCreate"):
        await cloud.call(CREATE_POD, VmCreate(name="x"))  # type: ignore[misc]
    with pytest.raises(TypeError, match="get_balance takes a NoneType"):
        await cloud.call(GET_BALANCE, {"x": 1})  # type: ignore[misc]


@pytest.mark.parametrize(
    "url",
    [
        "",
        "api.example.com",
        "ftp://api.example.com",
        "https://",
        "https://u:p@host",
        "https://h/?a=b",
        "https://h/#f",
        "https://h?",
        "https://h#",
        "http://h:99999",
        "http://h:x",
        "http://h:0",
        "http://a b",
        "http://h/\n",
    ],
)
def test_a_base_url_that_calls_cannot_be_made_below_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="the base URL must"):
        Cloud(url, KEY)


@pytest.mark.parametrize("key", ["", "or_secret_key\n", "or secret_key", "or_secret_kéy", "or_secret_key\x00"])
def test_a_key_that_cannot_be_sent_is_refused_without_being_told(key: str) -> None:
    with pytest.raises(ValueError, match="the API key is empty, or contains") as caught:
        Cloud("https://api.example.com", key)
    assert "secret" not in str(caught.value)


def test_a_key_that_is_too_long_is_refused_without_being_told() -> None:
    with pytest.raises(ValueError, match="the API key has more than 4096 characters"):
        Cloud("https://api.example.com", "k" * 4097)


@pytest.mark.parametrize(("length", "remembered"), [(512, 1), (513, 0)])
def test_only_short_urls_are_remembered(length: int, remembered: int) -> None:
    transport._remembered.cache_clear()
    text = "https://api.example.com/v1/vms?cursor=".ljust(length, "x")
    assert str(transport._url(text)) == str(transport._url(text)) == text
    assert transport._remembered.cache_info().currsize == remembered


def test_a_cloud_does_not_show_its_key() -> None:
    assert KEY not in repr(Cloud("https://api.example.com", KEY))
