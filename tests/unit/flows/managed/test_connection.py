"""Where a workload is reached, written for others: templates, ownership, and what is in the way."""

import base64
from dataclasses import replace

import pytest
from pydantic import JsonValue

from relay_kube.errors import Conflict, KubeError, NotLeading
from relay_kube.kube import CONFIG_MAPS, SECRETS
from relay_operator.api.connection import Connection, ConnectionTarget
from relay_operator.api.meta import ObjectKey
from relay_operator.flows.managed.connection import MOST_CHARACTERS, Reached, filled
from relay_operator.flows.managed.memory import ManagedMemory
from tests.unit.engine.apiserver import Call, Fault, Json, part
from tests.unit.flows.managed.world import NAMESPACE, World

KEY = ObjectKey("GpuPod", NAMESPACE, "train")
REACHED = Reached("https://x.example:8443/v1", "pod-1", "token-1")
BOTH: JsonValue = {"secret": {"name": "secret"}, "configMap": {"name": "conf"}}

CHECK = "check quotas, admission policies and the operator's rights"
TEMPLATES: dict[str, tuple[dict[str, str] | None, dict[str, str]]] = {
    "all that is known": (None, {"endpointUrl": "https://x.example:8443/v1", "host": "x.example:8443", "id": "pod-1"}),
    "one in a text": ({"URL": "at {{endpointUrl}}!"}, {"URL": "at https://x.example:8443/v1!"}),
    "several": ({"A": "{{id}}@{{ host }}"}, {"A": "pod-1@x.example:8443"}),
    "something unknown": ({"A": "<{{deployToken}}>"}, {"A": "<>"}),
    "one that does not end": ({"A": "{{id}} {{host"}, {"A": "pod-1 {{host"}),
    "none": ({"A": "plain"}, {"A": "plain"}),
}


@pytest.mark.parametrize(("keys", "expected"), TEMPLATES.values(), ids=TEMPLATES)
def test_a_template_is_filled_with(keys: dict[str, str] | None, expected: dict[str, str]) -> None:
    assert filled(ConnectionTarget(name="x", keys=keys), REACHED.values(secret=False)) == expected


LONG = "\U0001d535" * 4096
REPEATED: dict[str, tuple[dict[str, str] | None, Reached]] = {
    "the token": ({f"k{at}": "{{deployToken}}" * 136 for at in range(32)}, Reached("https://x.example", "pod-1", LONG)),
    "the host": ({f"k{at}": "{{host}}" * 256 for at in range(32)}, Reached(f"https://{LONG}", "pod-1")),
    "without templates": (None, Reached("https://x.example", "pod-1", "x" * MOST_CHARACTERS)),
}


@pytest.mark.parametrize(("keys", "reached"), REPEATED.values(), ids=REPEATED)
async def test_texts_that_would_be_too_long_are_not_built(
    world: World, keys: dict[str, str] | None, reached: Reached
) -> None:
    assert filled(ConnectionTarget(name="x", keys=keys), reached.values(secret=True)) is None
    told = await write(world, {"secret": {"name": "secret", **({"keys": dict(keys)} if keys else {})}}, reached=reached)
    assert told.startswith(
        "connection: the Secret secret would have more than 131,072 characters: put fewer placeholders"
    )
    assert world.server.calls == []


def test_texts_may_have_as_much_as_the_bound_in_all() -> None:
    values = {"id": "x" * 1024}
    keys = {f"k{at}": "{{id}}" * 32 for at in range(4)}
    whole = filled(ConnectionTarget(name="x", keys=keys), values)
    assert whole is not None
    assert sum(map(len, whole.values())) == MOST_CHARACTERS
    assert filled(ConnectionTarget(name="x", keys={**keys, "more": "x"}), values) is None


def test_an_address_that_is_none_has_no_host() -> None:
    reached = Reached("https://[broken/", "pod-1")
    assert reached.values(secret=False) == {"endpointUrl": "https://[broken/", "id": "pod-1"}


def test_the_deploy_token_goes_into_secrets_alone() -> None:
    assert "deployToken" in REACHED.values(secret=True)
    assert "deployToken" not in REACHED.values(secret=False)


async def write(
    world: World, connection: JsonValue, memory: ManagedMemory | None = None, reached: Reached = REACHED
) -> str:
    """What is in the way; empty where nothing is."""
    asked = Connection.model_validate(connection)
    return await world.flow.connections.write(KEY, "u1", asked, reached, memory or ManagedMemory("u1"))


def stored(world: World, plural: str, name: str) -> Json:
    return world.server.objects[plural, NAMESPACE, name]


async def test_where_it_is_is_not_written_before_that_is_known(world: World) -> None:
    assert await write(world, BOTH, reached=Reached("", "pod-1")) == ""
    assert world.server.calls == []


async def test_both_are_written_and_go_with_their_owner(world: World) -> None:
    labels: Json = {"secret": {"name": "secret", "labels": {"app": "x"}}, "configMap": {"name": "conf"}}
    assert await write(world, labels) == ""
    secret, conf = stored(world, "secrets", "secret"), stored(world, "configmaps", "conf")
    assert part(secret, "data")["deployToken"] == base64.b64encode(b"token-1").decode()
    assert "deployToken" not in part(conf, "data")
    metadata = part(secret, "metadata")
    owners = metadata["ownerReferences"]
    assert isinstance(owners, list)
    assert isinstance(owners[0], dict)
    assert (metadata["labels"], owners[0]["uid"], owners[0]["name"]) == ({"app": "x"}, "u1", "train")


async def test_what_is_as_it_should_be_costs_nothing(world: World) -> None:
    memory = ManagedMemory("u1")
    await write(world, BOTH, memory)
    world.server.calls.clear()
    await write(world, BOTH, memory)
    assert world.server.calls == []


async def test_what_changed_is_written_and_keys_no_longer_asked_for_go(world: World) -> None:
    memory = ManagedMemory("u1")
    await write(world, {"configMap": {"name": "conf", "keys": {"OLD": "{{id}}", "KEPT": "{{id}}"}}}, memory)
    keys: Json = {"configMap": {"name": "conf", "keys": {"KEPT": "{{host}}"}}}
    assert await write(world, keys, memory) == ""
    assert stored(world, "configmaps", "conf")["data"] == {"KEPT": "x.example:8443"}


async def test_one_of_ours_that_lost_its_data_is_filled_again(world: World) -> None:
    await write(world, {"configMap": {"name": "conf", "keys": {"A": "{{id}}"}}})
    world.server.edit("configmaps", NAMESPACE, "conf", {"data": None})
    assert await write(world, {"configMap": {"name": "conf", "keys": {"A": "{{id}}"}}}) == ""
    assert stored(world, "configmaps", "conf")["data"] == {"A": "pod-1"}


OTHERS: dict[str, Json] = {
    "nobody's": {},
    "another's": {"ownerReferences": [{"uid": "u2"}]},
    "of another shape": {"ownerReferences": "u1"},
}


@pytest.mark.parametrize("metadata", OTHERS.values(), ids=OTHERS)
async def test_what_is_not_ours_is_never_overwritten(world: World, metadata: Json) -> None:
    found: Json = {"metadata": {"name": "secret", **metadata}, "data": {"mine": "eA=="}}
    await world.kube.create(SECRETS, NAMESPACE, found)
    memory = ManagedMemory("u1")
    assert "the Secret secret exists and is not this object's" in await write(world, BOTH, memory)
    assert stored(world, "secrets", "secret")["data"] == {"mine": "eA=="}
    world.server.remove("secrets", NAMESPACE, "secret")
    assert await write(world, BOTH, memory) == ""


@pytest.mark.parametrize("method", ["GET", "POST", "PATCH"])
async def test_what_the_api_server_refuses_is_told(world: World, method: str) -> None:
    if method == "PATCH":
        await write(world, BOTH, reached=Reached("https://former.example/", "pod-1"))
    world.server.faults.append(Fault(422, method=method))
    said = "scripted" if method == "GET" else "the Secret secret is not written"
    assert await write(world, BOTH) == f"connection: the API server refuses it: Scripted: {said}; {CHECK}"


@pytest.mark.parametrize("method", ["POST", "PATCH"])
async def test_what_an_admission_policy_says_of_a_configmap_is_told(world: World, method: str) -> None:
    """It has no secrets, and whoever reads its data may read why it is refused."""
    if method == "PATCH":
        await write(world, BOTH, reached=Reached("https://former.example/", "pod-1"))
    world.server.faults.append(Fault(422, method=method, plural="configmaps"))
    assert await write(world, BOTH) == f"connection: the API server refuses it: Scripted: scripted; {CHECK}"


async def test_an_api_server_that_does_not_answer_is_no_problem_of_the_object(world: World) -> None:
    world.server.faults.append(Fault(500))
    with pytest.raises(KubeError):
        await write(world, BOTH)
    assert await world.kube.create(CONFIG_MAPS, NAMESPACE, {"metadata": {"name": "conf"}})


async def test_a_process_that_starts_anew_writes_nothing_where_all_is_as_it_was(world: World) -> None:
    await write(world, BOTH)
    written = len(world.server.writes)
    assert await write(world, BOTH) == ""
    assert len(world.server.writes) == written
    labelled: JsonValue = {"secret": {"name": "conn", "labels": {"team": "a"}}}
    await write(world, {"secret": {"name": "conn"}})
    before = len(world.server.writes)
    await write(world, labelled)
    assert len(world.server.writes) == before + 1, "a label that is asked for is put there"


async def test_what_somebody_makes_in_its_place_meanwhile_is_not_overwritten(world: World) -> None:
    await write(world, {"configMap": {"name": "conf"}}, reached=Reached("https://former.example/", "pod-1"))

    def replaced(call: Call) -> None:
        if call.method == "PATCH":
            world.server.before = lambda _call: None
            world.server.remove("configmaps", NAMESPACE, "conf")
            world.server.put("configmaps", {"metadata": {"name": "conf", "namespace": NAMESPACE}, "data": {"a": "b"}})

    world.server.before = replaced
    with pytest.raises(Conflict):
        await write(world, {"configMap": {"name": "conf"}})
    assert stored(world, "configmaps", "conf")["data"] == {"a": "b"}


async def test_a_label_that_somebody_took_off_is_put_back(world: World) -> None:
    labelled: JsonValue = {"configMap": {"name": "conf", "labels": {"team": "a"}}}
    memory, asked = ManagedMemory("u1"), Connection.model_validate(labelled)
    await write(world, labelled, memory)
    assert await world.flow.connections.intact(KEY, "u1", asked, memory)
    world.server.edit("configmaps", NAMESPACE, "conf", {"metadata": {"labels": None}})
    assert not await world.flow.connections.intact(KEY, "u1", asked, memory)
    await write(world, labelled, memory)
    assert part(stored(world, "configmaps", "conf"), "metadata")["labels"] == {"team": "a"}


async def test_what_this_process_never_wrote_is_not_looked_for(world: World) -> None:
    asked = Connection.model_validate(BOTH)
    assert await world.flow.connections.intact(KEY, "u1", asked, ManagedMemory("u1"))
    assert world.server.calls == []


@pytest.mark.parametrize("there", [False, True])
async def test_a_process_that_no_longer_leads_writes_nothing(world: World, *, there: bool) -> None:
    if there:
        await write(world, BOTH)
    written = len(world.server.writes)
    world.leading = False
    with pytest.raises(NotLeading):
        await write(world, BOTH, reached=replace(REACHED, endpoint_url="https://other.example/"))
    assert len(world.server.writes) == written
