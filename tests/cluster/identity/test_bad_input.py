"""Intents and statuses that are forged, torn, or of another object, kind, release or organization: what comes of them.

Each object gets a clear status and, by itself or by the command that its message ends with, a resource of its own;
nothing is ended that is not its own.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.cluster.cloud_log import CREATE_CLUSTER, CREATE_POD, TERMINATE_VM, changes
from tests.support.manifests import condition, gpu_cluster, gpu_pod, ready, stalled

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.support.kube import Manifest
    from tests.support.workspace import Workspace

INTENT, ADOPT_ID, PAUSED, ABANDON = (
    f"gpurelay.dev/{name}" for name in ("create-intent", "adopt-id", "paused", "abandon")
)
LONG = "x" * 200_000
Json = dict[str, Any]


@dataclass(frozen=True)
class World:
    """What there is that belongs to others."""

    pod: Manifest
    cluster: Manifest
    elsewhere: str
    """A pod of another organization."""
    made_by_hand: str
    """A cluster that no object has."""

    @property
    def ids(self) -> set[str]:
        return {self.pod["status"]["id"], self.cluster["status"]["id"], self.elsewhere, self.made_by_hand}

    @property
    def intent(self) -> Json:
        parsed: Json = json.loads(self.pod["metadata"]["annotations"][INTENT])
        return parsed


@dataclass(frozen=True)
class Bad:
    """What an object is found with, what it says of that, and how it is put right: by itself if nothing is told."""

    annotations: Mapping[str, str] = field(default_factory=dict)
    status: Mapping[str, Any] = field(default_factory=dict)
    stalled: str = ""
    message: str = ""
    cure: Mapping[str, Any] = field(default_factory=dict)
    """A merge patch; without one, the command that the message ends with."""


def _own(item: Manifest, world: World) -> Json:
    """The identity that the operator records for this object."""
    recorded: Json = world.pod["status"]["identity"]
    metadata = item["metadata"]
    return recorded | {"name": metadata["name"], "uid": metadata["uid"]}


def _cases(item: Manifest, world: World) -> dict[str, Bad]:
    pod, cluster, intent = world.pod["status"], world.cluster["status"], world.intent
    forged = {name: value for name, value in intent.items() if name != "identity"}
    forged |= {"token": item["metadata"]["uid"], "startedAt": "2026-10-21T10:00:00Z"}
    own = {"identity": _own(item, world)}
    unknown = "CreateOutcomeUnknown"
    anew = {"spec": {"recovery": {"onTerminated": "Recreate"}}}
    return {
        "a torn intent": Bad({INTENT: '{"token":"abc","na'}, {}, unknown, "create-intent cannot be read"),
        "a long intent": Bad({INTENT: LONG}, {}, unknown, "create-intent cannot be read: it is too long"),
        "an intent of another version": Bad(
            {INTENT: json.dumps({"version": 2, "createToken": "abc"})}, {}, unknown, "create-intent cannot be read"
        ),
        "anothers intent": Bad({INTENT: json.dumps(intent)}),
        "anothers intent of the first release": Bad({INTENT: json.dumps(forged)}),
        "a forged intent": Bad({INTENT: json.dumps(forged | own)}),
        "a forged intent of what nobody knows": Bad(
            {INTENT: json.dumps(forged | own | {"name": "by-hand"})}, {}, unknown, "a resource named 'by-hand'"
        ),
        "a forged intent that adopts": Bad(
            {INTENT: json.dumps(forged | own), ADOPT_ID: pod["id"]},
            {},
            "AdoptionRefused",
            f"{pod['id']} belongs to GpuPod/",
            {"metadata": {"annotations": {ADOPT_ID: None}}},
        ),
        "anothers status": Bad({}, pod),
        "anothers status of the first release": Bad({}, pod | {"identity": None}),
        "anothers id in its own name": Bad(
            {},
            {"id": pod["id"], "cloudName": pod["cloudName"], **own},
            "IdentityMismatch",
            "is also recorded by GpuPod/",
        ),
        "an id of another kind": Bad(
            {},
            {"id": cluster["id"], **own},
            "IdentityMismatch",
            "is also recorded by GpuCluster/",
        ),
        "an id of another kind that nobody records": Bad(
            {}, {"id": world.made_by_hand, **own}, "TerminatedExternally", world.made_by_hand, anew
        ),
        "an id of another organization": Bad(
            {}, {"id": world.elsewhere, **own}, "TerminatedExternally", world.elsewhere, anew
        ),
        "a status of another organization": Bad(
            {},
            {"id": world.elsewhere, "identity": _own(item, world) | {"organization": "org_elsewhere"}},
            "IdentityMismatch",
            "org_elsewhere",
            {"metadata": {"annotations": {ABANDON: "true"}}},
        ),
        "a status of another version": Bad({}, {"observedGeneration": 7, "state": "hovering", "attempt": 3}),
        "long notes": Bad({"example.com/note": LONG}),
        "a long adopt-id": Bad(
            {ADOPT_ID: LONG},
            {},
            "AdoptionRefused",
            "not an id of the cloud",
            {"metadata": {"annotations": {ADOPT_ID: None}}},
        ),
        "a long reconcile-at": Bad({"gpurelay.dev/reconcile-at": LONG}),
        "a long retry-create": Bad({"gpurelay.dev/retry-create": LONG}),
    }


async def _others(workspace: Workspace) -> World:
    for manifest in (gpu_pod("victim"), gpu_cluster("victim", replicas=1)):
        await workspace.apply(manifest)
    other = await workspace.cloud.control.create_organization(f"{workspace.namespace}-other")
    body = {"image": "pytorch/pytorch:2.9.0", "name": "elsewhere", "gpuModelId": "l40s", "gpuCount": 1, "volumeGb": 50}
    elsewhere = await other.call("POST", "/v1/pods", body)
    body = {"name": "by-hand", "replicaCount": 1, "gpuModelId": "l40s", "gpusPerReplica": 1, "imageUrl": "vllm"}
    path = f"/v1/orgs/{workspace.organization.id}/clusters/create"
    by_hand = await workspace.organization.call("POST", path, body | {"containerPort": 8000})
    pod, cluster = [await workspace.becomes(kind, "victim") for kind in ("GpuPod", "GpuCluster")]
    return World(pod, cluster, elsewhere["id"], by_hand["id"])


async def _put_right(workspace: Workspace, number: int, world: World) -> str:
    """The resource that an object had in the end, whatever it was found with; raises AssertionError."""
    kube, name = workspace.kube, f"bad-{number}"
    item = await kube.create(gpu_pod(name) | {"metadata": {"name": name, "annotations": {PAUSED: "true"}}})
    what, case = list(_cases(item, world).items())[number]
    if case.status:
        await kube.patch("GpuPod", name, {"status": case.status}, subresource="status")
    await kube.annotate("GpuPod", name, {**case.annotations, PAUSED: None})
    if case.stalled:
        told = await workspace.becomes("GpuPod", name, lambda item: stalled(item) == case.stalled)
        message = condition(told, "Stalled")["message"]
        assert case.message in message, what
        if case.cure:
            await kube.patch("GpuPod", name, dict(case.cure))
        else:
            await workspace.obey(message)
        if ABANDON in str(case.cure or message):
            await kube.delete("GpuPod", name)
            await workspace.is_gone("GpuPod", name)
            await workspace.apply(gpu_pod(name))

    def its_own(item: Manifest | None) -> bool:
        status = (item or {})["status"]
        return ready(item) and status.get("identity", {}).get("name") == name and status["id"] not in world.ids

    after = await workspace.becomes("GpuPod", name, its_own)
    cloud_id: str = after["status"]["id"]
    await kube.delete("GpuPod", name)
    await workspace.is_gone("GpuPod", name)
    return cloud_id


async def test_bad_records_end_nothing_of_others(brisk_workspace: Workspace) -> None:
    workspace, kube = brisk_workspace, brisk_workspace.kube
    world = await _others(workspace)
    numbers = range(len(_cases(world.pod, world)))
    at_once = asyncio.Semaphore(3)  # the cloud has a GPU for each of so many

    async def put_right(number: int) -> str:
        async with at_once:
            return await _put_right(workspace, number, world)

    made = await asyncio.gather(*map(put_right, numbers))
    assert len(set(made)) == len(numbers)
    created = [CREATE_CLUSTER, CREATE_CLUSTER, *[CREATE_POD] * (1 + len(numbers))]
    assert sorted(await changes(workspace)) == sorted([*created, *[TERMINATE_VM] * len(numbers)])
    for kind in ("GpuPod", "GpuCluster"):
        assert ready(await kube.get(kind, "victim"))
    assert (await workspace.organization.cluster(world.made_by_hand))["status"] != "terminated"
