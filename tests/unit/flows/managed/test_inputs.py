"""What a create takes from Secrets and ConfigMaps: who wins, what is missing, and a digest that gives nothing away."""

import asyncio
from dataclasses import dataclass
from typing import cast

import pytest
from pydantic import JsonValue

from relay_kube.errors import KubeError
from relay_kube.kube import CONFIG_MAPS, SECRETS, JsonObject, Kube, ResourceType
from relay_operator.api.parts import EnvFromSource, EnvVar
from relay_operator.api.references import ValueSource
from relay_operator.engine.manifests import texts
from relay_operator.flows.managed.inputs import MAX_BYTES, InputReader, MissingInput, ReadInputs
from relay_operator.flows.managed.memory import ManagedMemory
from relay_operator.flows.managed.resource import InputRefs
from tests.unit.engine.apiserver import Fault, encoded
from tests.unit.flows.managed.world import NAMESPACE, World


async def prepared(world: World) -> None:
    await world.kube.create(SECRETS, NAMESPACE, {"metadata": {"name": "keys"}, "data": encoded(A="sa", B="sb")})
    await world.kube.create(CONFIG_MAPS, NAMESPACE, {"metadata": {"name": "conf"}, "data": {"B": "cb", "C": "cc"}})


def source(**fields: JsonValue) -> EnvFromSource:
    return EnvFromSource.model_validate(fields)


def value_of(kind: str, name: str, key: str, *, optional: bool = False) -> ValueSource:
    return ValueSource.model_validate({f"{kind}KeyRef": {"name": name, "key": key}, "optional": optional})


def env(name: str, value: str | ValueSource) -> EnvVar:
    return EnvVar(name=name, value=value) if isinstance(value, str) else EnvVar(name=name, value_from=value)


SECRET_SOURCE, CONF_SOURCE = source(secretRef={"name": "keys"}), source(configMapRef={"name": "conf"})


async def read(world: World, refs: InputRefs, memory: ManagedMemory | None = None, salt: str = "uid-1") -> ReadInputs:
    result = await InputReader(world.kube).read(NAMESPACE, refs, salt, memory or ManagedMemory("u1"))
    assert isinstance(result, ReadInputs), result
    return result


ENVIRONMENTS: dict[str, tuple[InputRefs, dict[str, str]]] = {
    "nothing": (InputRefs(), {}),
    "plain values": (InputRefs(env=[env("X", "1")]), {"X": "1"}),
    "later sources win": (InputRefs(env_from=[SECRET_SOURCE, CONF_SOURCE]), {"A": "sa", "B": "cb", "C": "cc"}),
    "a prefix": (InputRefs(env_from=[source(secretRef={"name": "keys"}, prefix="P_")]), {"P_A": "sa", "P_B": "sb"}),
    "env wins over envFrom": (
        InputRefs(env=[env("A", "plain"), env("B", value_of("configMap", "conf", "C"))], env_from=[SECRET_SOURCE]),
        {"A": "plain", "B": "cc"},
    ),
    "a source that may be missing": (InputRefs(env_from=[source(secretRef={"name": "no"}, optional=True)]), {}),
    "a value that may be missing": (InputRefs(env=[env("X", value_of("secret", "no", "A", optional=True))]), {}),
    "a key that may be missing": (InputRefs(env=[env("X", value_of("secret", "keys", "no", optional=True))]), {}),
    "references to nothing": (InputRefs(env=[env("X", ValueSource())], env_from=[EnvFromSource()]), {}),
}


@pytest.mark.parametrize(("refs", "expected"), ENVIRONMENTS.values(), ids=ENVIRONMENTS)
async def test_the_environment_is(world: World, refs: InputRefs, expected: dict[str, str]) -> None:
    await prepared(world)
    assert (await read(world, refs)).env == expected


async def test_ssh_keys_are_read_in_order_and_one_that_may_be_missing_is_left_out(world: World) -> None:
    await prepared(world)
    keys = [value_of("secret", "keys", "B"), value_of("secret", "keys", "no", optional=True)]
    assert (await read(world, InputRefs(ssh_keys=[*keys, value_of("configMap", "conf", "C")]))).ssh_keys == ("sb", "cc")


@pytest.mark.parametrize("text", ["-----BEGIN OPENSSH PRIVATE KEY-----", "PuTTY-User-Key-File-3: ssh-ed25519"])
async def test_a_private_key_that_a_reference_leads_to_is_not_sent(world: World, text: str) -> None:
    await world.kube.create(SECRETS, NAMESPACE, {"metadata": {"name": "pair"}, "data": encoded(id=text)})
    refs = InputRefs(ssh_keys=[value_of("secret", "pair", "id")])
    result = await InputReader(world.kube).read(NAMESPACE, refs, "uid-1", ManagedMemory("u1"))
    assert result == MissingInput("sshKeysFrom leads to a private key, which is not sent: refer to the public one")


MISSING: dict[str, tuple[InputRefs, str]] = {
    "a source": (
        InputRefs(env_from=[source(configMapRef={"name": "no"})]),
        f"envFrom: ConfigMap no does not exist in the namespace {NAMESPACE}",
    ),
    "an object": (
        InputRefs(env=[env("X", value_of("secret", "no", "A"))]),
        f"env X: Secret no in {NAMESPACE} does not exist",
    ),
    "a key": (
        InputRefs(ssh_keys=[value_of("secret", "keys", "no")]),
        f"sshKeysFrom: Secret keys in {NAMESPACE} has no text at key 'no'",
    ),
}


@pytest.mark.parametrize(("refs", "sentence"), MISSING.values(), ids=MISSING)
async def test_what_is_missing_is_named(world: World, refs: InputRefs, sentence: str) -> None:
    await prepared(world)
    result = await InputReader(world.kube).read(NAMESPACE, refs, "uid-1", ManagedMemory("u1"))
    assert result == MissingInput(sentence)


async def test_every_object_is_read_once_a_pass(world: World) -> None:
    await prepared(world)
    world.server.calls.clear()
    await read(world, InputRefs(env=[env("X", value_of("secret", "keys", "A"))], env_from=[SECRET_SOURCE]))
    assert [call.name for call in world.server.calls] == ["keys"]


async def test_the_digest_tells_changes_of_what_was_read_and_of_nothing_else(world: World) -> None:
    await prepared(world)
    refs = InputRefs(env=[env("X", "plain")], env_from=[SECRET_SOURCE])
    memory = ManagedMemory("u1")
    first = (await read(world, refs, memory)).digest
    assert (await read(world, InputRefs(env=[env("X", "other")], env_from=[SECRET_SOURCE]), memory)).digest == first
    world.server.edit("secrets", NAMESPACE, "keys", {"metadata": {"labels": {"a": "b"}}})
    assert (await read(world, refs, memory)).digest == first
    world.server.edit("secrets", NAMESPACE, "keys", {"data": encoded(A="changed")})
    assert (await read(world, refs, memory)).digest != first


async def test_the_digest_tells_another_key_of_an_unchanged_secret(world: World) -> None:
    await prepared(world)
    memory = ManagedMemory("u1")
    digests = [
        (await read(world, InputRefs(env=[env("X", value_of("secret", "keys", key))]), memory)).digest
        for key in ("A", "B", "A")
    ]
    afresh = (await read(world, InputRefs(env=[env("X", value_of("secret", "keys", "B"))]))).digest
    assert digests == [digests[0], afresh, digests[0]]
    assert digests[0] != afresh


async def test_the_digest_is_keyed_and_short_and_absent_where_nothing_was_read(world: World) -> None:
    await prepared(world)
    refs = InputRefs(env_from=[SECRET_SOURCE])
    one, other = (await read(world, refs)).digest, (await read(world, refs, salt="uid-2")).digest
    assert (one != other, len(one)) == (True, 16)
    assert (await read(world, InputRefs(env=[env("X", "plain")]))).digest == ""


async def test_the_digest_is_derived_once_for_the_same_values(world: World) -> None:
    await prepared(world)
    memory = ManagedMemory("u1")
    refs = InputRefs(env_from=[SECRET_SOURCE, source(secretRef={"name": "no"}, optional=True)])
    await read(world, refs, memory)
    memory.env_digest = (memory.env_digest[0], "remembered")
    assert (await read(world, refs, memory)).digest == "remembered"
    await world.kube.create(SECRETS, NAMESPACE, {"metadata": {"name": "no"}, "data": encoded(Z="z")})
    assert (await read(world, refs, memory)).digest != "remembered"


async def test_an_api_server_that_does_not_answer_is_not_taken_for_a_missing_secret(world: World) -> None:
    world.server.faults.append(Fault(500))
    with pytest.raises(KubeError):
        await read(world, InputRefs(env_from=[SECRET_SOURCE]))


TEXTS: dict[str, tuple[JsonValue, bool, dict[str, str]]] = {
    "a ConfigMap": ({"a": "b"}, False, {"a": "b"}),
    "a Secret": ({"a": "Yg=="}, True, {"a": "b"}),
    "bytes that are no text": ({"a": "/w==", "b": "Yg=="}, True, {"b": "b"}),
    "what is not base64": ({"a": "x"}, True, {}),
    "what is not a text": ({"a": 1}, False, {}),
    "no data": (None, True, {}),
}


@pytest.mark.parametrize(("data", "is_encoded", "expected"), TEXTS.values(), ids=TEXTS)
def test_texts_of(data: JsonValue, is_encoded: bool, expected: dict[str, str]) -> None:
    assert texts(data, encoded=is_encoded) == expected


async def test_single_texts_are_read_by_the_name_that_the_kind_gives_them(world: World) -> None:
    await prepared(world)
    sources = {"script": value_of("configMap", "conf", "C"), "no": value_of("secret", "no", "A", optional=True)}
    found = await read(world, InputRefs(texts=sources))
    assert found.texts == {"script": "cc"}
    assert found.digest != (await read(world, InputRefs(texts={"other": sources["script"]}))).digest
    assert InputRefs(texts=sources).any


async def with_large(world: World, *names: str) -> None:
    """ConfigMaps that hold more than half of what one object may take, and a small key."""
    data: JsonValue = {"large": "x" * (MAX_BYTES * 5 // 8), "small": "s"}
    for name in names:
        await world.kube.create(CONFIG_MAPS, NAMESPACE, {"metadata": {"name": name}, "data": data})


def whole(name: str, prefix: str = "P_") -> EnvFromSource:
    return source(configMapRef={"name": name}, prefix=prefix)


TOO_MUCH: dict[str, InputRefs] = {
    "two objects": InputRefs(env_from=[whole("one"), whole("two"), whole("three")]),
    "two keys": InputRefs(texts={name: value_of("configMap", name, "large") for name in ("one", "two", "three")}),
    "a key that is used later": InputRefs(
        env=[
            env(f"{name}_{key}", value_of("configMap", name, key))
            for key in ("small", "large")
            for name in ("one", "two")
        ]
    ),
}


@pytest.mark.parametrize("refs", TOO_MUCH.values(), ids=TOO_MUCH)
async def test_what_takes_too_much_is_named_and_nothing_more_is_read(world: World, refs: InputRefs) -> None:
    await with_large(world, "one", "two", "three")
    world.server.calls.clear()
    result = await InputReader(world.kube).read(NAMESPACE, refs, "uid-1", ManagedMemory("u1"))
    assert result == MissingInput(
        f"with ConfigMap two in {NAMESPACE}, the spec takes 1280 KiB from Secrets and ConfigMaps, more than 1024 KiB: "
        "refer to fewer keys, or to smaller ones"
    )
    assert [call.name for call in world.server.calls] == ["one", "two"]


@pytest.mark.parametrize(
    "refs",
    [
        InputRefs(env_from=[whole("one", "A_"), whole("one", "B_")]),
        InputRefs(env=[env(name, value_of("configMap", "one", "large")) for name in "AB"]),
    ],
    ids=["whole", "key"],
)
async def test_what_is_used_twice_counts_twice(world: World, refs: InputRefs) -> None:
    await with_large(world, "one")
    result = await InputReader(world.kube).read(NAMESPACE, refs, "uid-1", ManagedMemory("u1"))
    assert isinstance(result, MissingInput)


async def test_many_empty_values_are_too_much_as_well(world: World) -> None:
    data: JsonValue = {f"k{number}": "" for number in range(10_000)}
    await world.kube.create(CONFIG_MAPS, NAMESPACE, {"metadata": {"name": "many"}, "data": data})
    result = await InputReader(world.kube).read(
        NAMESPACE, InputRefs(env_from=[whole("many")]), "uid-1", ManagedMemory("u1")
    )
    assert isinstance(result, MissingInput)


async def test_only_the_keys_that_are_asked_for_count(world: World) -> None:
    await with_large(world, "one", "two", "three")
    variables = [env(name.upper(), value_of("configMap", name, "small")) for name in ("one", "two", "three")]
    assert (await read(world, InputRefs(env=variables))).env == {"ONE": "s", "TWO": "s", "THREE": "s"}


@dataclass
class Counting:
    """Reads of an API server that are under way at the same time."""

    kube: Kube
    now: int = 0
    most: int = 0

    async def get(self, kind: ResourceType, namespace: str | None, name: str) -> JsonObject:
        self.now += 1
        self.most = max(self.most, self.now)
        found = await self.kube.get(kind, namespace, name)
        self.now -= 1
        return found


async def test_readers_of_one_process_read_only_so_much_at_once(world: World) -> None:
    await prepared(world)
    counting, reads = Counting(world.kube), asyncio.Semaphore(2)
    readers = [InputReader(cast("Kube", counting), reads) for _ in range(4)]
    refs = InputRefs(env_from=[SECRET_SOURCE, CONF_SOURCE])
    await asyncio.gather(*(each.read(NAMESPACE, refs, "uid-1", ManagedMemory("u1")) for each in readers))
    assert counting.most == 2
