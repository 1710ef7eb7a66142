"""While no new resource can be made, the old one keeps its place, and status is not written again and again."""

from collections.abc import Mapping

from pydantic import JsonValue

from relay_operator.api.meta import ObjectKey
from relay_operator.flows.managed.resource import Change
from relay_operator.kinds.gpupod import Pod
from relay_wire.vms import VmRecord
from tests.unit.flows.managed.blue_green import BLUE_GREEN, BluePod, BluePods, ids
from tests.unit.flows.managed.references import ADA, put
from tests.unit.flows.managed.world import NAMESPACE, World

ACCOUNT = ObjectKey("CloudAccount", NAMESPACE, "default")


def delete_account(world: World) -> None:
    """It waits, since the pod needs it."""
    metadata: JsonValue = {"name": "default", "namespace": NAMESPACE, "uid": "a", "deletionTimestamp": "2026-01-01"}
    world.cache.put(ACCOUNT, {"metadata": metadata})


async def held_up(world: World) -> tuple[str, list[str | None], int]:
    """The reason, what there is, and how many passes wrote status in ten minutes after the change."""
    before = len(world.passes)
    world.change(image="another")
    await world.wait(600, step=10)
    return world.reason(), ids(world), sum(each.wrote for each in world.passes[before:])


async def test_an_account_that_is_being_deleted(blue: World) -> None:
    delete_account(blue)
    assert await held_up(blue) == ("WaitingForAccount", ["pod-1"], 1)


class GivenAKey(BluePods):
    """Pods that are given the SshKeys which `sshKeys` names, only when they are made."""

    def references(self, obj: Pod) -> tuple[ObjectKey, ...]:
        return tuple(ObjectKey("SshKey", NAMESPACE, name) for name in obj.spec.ssh_keys or ())

    def giving(self, obj: Pod, observed: VmRecord, ids: Mapping[ObjectKey, str]) -> tuple[Change, ...]:
        return ()


async def test_a_reference_that_the_old_one_was_given_and_a_new_one_cannot_get(world: World) -> None:
    world.kind, world.model = GivenAKey, BluePod
    world.server._validate = lambda _raw: None
    world.assemble()
    put(world, ADA, 10)
    account: JsonValue = {"name": "default", "namespace": NAMESPACE, "finalizers": ["gpurelay.dev/cloud-resource"]}
    world.cache.put(ACCOUNT, {"metadata": account})
    world.apply(updateStrategy=BLUE_GREEN, sshKeys=["ada"])
    await world.wait(5)
    assert world.reason() == "Running"
    put(world, ADA, 11, metadata={"deletionTimestamp": "2026-03-01T12:00:00Z"})  # waits, since it is in use
    assert await held_up(world) == ("ReferenceDeleting", ["pod-1"], 1)
    put(world, ADA, 12)
    await world.wait(20)
    assert (world.reason(), world.pods.count("create")) == ("Running", 2)
