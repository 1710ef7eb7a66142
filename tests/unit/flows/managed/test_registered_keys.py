"""A pod is made with the very keys that its SshKeys have registered, and tells when these are others by now."""

import pytest
from pydantic import JsonValue

from relay_kube.kube import SECRETS
from relay_operator.api.conditions import ConditionType
from relay_operator.api.meta import FINALIZER
from relay_operator.engine.queue import Priority
from tests.unit.engine.apiserver import Json, encoded
from tests.unit.flows.managed.references import ADA, BOB, given, put
from tests.unit.flows.managed.world import NAMESPACE, World

A = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
SHOWN = "SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU"
OTHER = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIG2N9j80sbaY1nmljEToRcN55XktyW4TR4LTP2exYzp"
WRITTEN: JsonValue = {"publicKey": f"{A} ada\n"}
READ: JsonValue = {"publicKeyFrom": {"secretKeyRef": {"name": "team", "key": "bob"}}}
REFS: JsonValue = [{"name": "ada"}, {"name": "bob"}]
REGISTERED: JsonValue = {"fingerprint": SHOWN}


@pytest.fixture(autouse=True)
def account(world: World) -> None:
    named: Json = {
        "name": "default",
        "namespace": NAMESPACE,
        "uid": "account",
        "resourceVersion": "1",
        "finalizers": [FINALIZER],
    }
    world.cache.put(ADA._replace(kind="CloudAccount", name="default"), {"metadata": named})


async def has(world: World, key: str) -> None:
    await world.kube.create(SECRETS, NAMESPACE, {"metadata": {"name": "team"}, "data": encoded(bob=key)})


def outdated(world: World) -> bool:
    return world.condition(ConditionType.ENV_OUTDATED) is not None


async def looked_again(world: World) -> None:
    world.queue.add(ADA._replace(kind="GpuPod", name="train"), Priority.CHANGE)
    await world.settle()


async def test_a_pod_is_made_with_the_keys_of_its_ssh_keys_once_these_are_ready(world: World) -> None:
    await has(world, A)
    put(world, ADA, 10, spec=WRITTEN, status=REGISTERED)
    world.apply(sshKeys=[OTHER], sshKeyRefs=REFS)
    await world.wait(1)
    assert (world.reason(), world.pods.created) == ("ReferenceNotFound", [])
    put(world, BOB, 11, "ssh-2", spec=READ, status=REGISTERED)
    await world.wait(10)
    assert world.reason() == "Running"
    assert world.pods.sent[0][1].ssh_keys == (f"{A} ada", A)
    assert given(world) == {"ada": "ssh-1", "bob": "ssh-2"}
    assert not outdated(world)


async def test_a_key_that_is_read_and_is_not_the_registered_one_is_never_sent(world: World) -> None:
    await has(world, OTHER)
    put(world, BOB, 10, spec=READ, status=REGISTERED)
    world.apply(sshKeyRefs=[{"name": "bob"}])
    await world.wait(1)
    condition = world.condition()
    assert condition is not None
    assert condition.reason == "EnvMissing"
    assert condition.message.startswith(f"SshKey bob is registered as {SHOWN}, and its source has another")
    assert world.pods.created == []


async def test_a_key_of_which_the_cloud_tells_no_fingerprint_is_taken_as_it_is(world: World) -> None:
    put(world, ADA, 10, spec=WRITTEN)
    world.apply(sshKeyRefs=[{"name": "ada"}])
    await world.wait(10)
    assert world.pods.sent[0][1].ssh_keys == (f"{A} ada",)


async def test_an_ssh_key_that_is_another_by_now_is_told(world: World) -> None:
    await has(world, OTHER)
    put(world, ADA, 10, spec=WRITTEN)
    world.apply(sshKeyRefs=[{"name": "ada"}], sshKeysFrom=[{"secretKeyRef": {"name": "team", "key": "bob"}}])
    await world.wait(10)
    put(world, ADA, 11, spec={"publicKey": OTHER}, status={"conditions": []})
    await looked_again(world)
    assert (world.reason(), outdated(world)) == ("Running", False)
    put(world, ADA, 12, "ssh-2", spec={"publicKey": OTHER})
    await looked_again(world)
    assert (world.reason(), outdated(world)) == ("Running", True)
    assert len(world.pods.created) == 1


async def test_an_ssh_key_that_is_added_to_a_pod_that_lives_is_told(world: World) -> None:
    put(world, ADA, 10, spec=WRITTEN)
    world.apply()
    await world.wait(10)
    world.change(sshKeyRefs=[{"name": "ada"}])
    await world.wait(10)
    assert world.reason() == "ImmutableFieldChanged"
    world.change(updateStrategy={"type": "Recreate"})
    await world.wait(30)
    assert world.reason() == "Running"
    assert (len(world.pods.created), len(world.pods.live)) == (2, 1)
    assert given(world) == {"ada": "ssh-1"}
