"""Labels of namespaces: read again after a minute, and kept no longer."""

import json

from relay_operator.accounts.namespace_selector import Admission
from tests.unit.flows.managed.world import World

SELECTIVE = json.dumps(
    {
        "kind": "ClusterCloudAccount",
        "metadata": {"name": "shared"},
        "spec": {
            "apiKeySecretRef": {"name": "key", "namespace": "relay", "key": "api-key"},
            "allowedNamespaces": {"matchLabels": {"team": "a"}},
        },
    }
).encode()


def label(world: World, namespace: str, team: str) -> None:
    world.server.put("namespaces", {"kind": "Namespace", "metadata": {"name": namespace, "labels": {"team": team}}})


async def test_labels_are_read_again_after_a_minute(world: World) -> None:
    admission = Admission(world.kube, world.clock.monotonic)
    label(world, "ns", "a")
    assert await admission.admitted(SELECTIVE, "ns")
    label(world, "ns", "b")
    world.clock.seconds = 60
    assert await admission.admitted(SELECTIVE, "ns")
    world.clock.seconds = 61
    assert not await admission.admitted(SELECTIVE, "ns")


async def test_labels_that_are_too_old_to_be_used_are_not_kept(world: World) -> None:
    admission = Admission(world.kube, world.clock.monotonic)
    for moment, namespace in ((0, "first"), (40, "second"), (61, "first"), (101, "third")):
        world.clock.seconds = moment
        await admission.admitted(SELECTIVE, namespace)
    assert set(admission._labels) == {"first", "third"}
