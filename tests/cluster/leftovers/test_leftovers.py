"""What is in the cloud without an object is found by its name, told, and ended where that is safe."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

import pytest

from relay_operator.engine.intent import cloud_name
from tests.cluster.admission import refusing
from tests.cluster.cloud_log import BY_ITSELF, CREATE_POD, READ_VM, asked, count, left
from tests.conftest import OPERATOR_NAMESPACE
from tests.support.eventually import eventually
from tests.support.manifests import condition, gpu_cluster, gpu_pod, ready

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from tests.support.kube import Manifest
    from tests.support.operator import Operator
    from tests.support.workspace import Workspace

KINDS = pytest.mark.parametrize("manifest", [gpu_pod("one"), gpu_cluster("one", replicas=1)], ids=["pod", "cluster"])
REFUSAL = "no ConfigMap more is taken"
POD = pytest.mark.parametrize("manifest", [gpu_pod("one")], ids=["pod"])


async def create(workspace: Workspace, kind: str, name: str) -> str:
    """What the cloud acts on late, or somebody else's operator asks for."""
    organization = workspace.organization
    if kind == "GpuPod":
        made = await organization.call("POST", "/v1/pods", {"image": "nginx", "name": name})
    else:
        body = {"name": name, "replicaCount": 1, "imageUrl": "nginx"}
        made = await organization.call("POST", f"/v1/orgs/{organization.id}/clusters/create", body)
    return str(made["id"])


async def records(workspace: Workspace) -> list[str]:
    """Names of the operator's ConfigMaps that keep a leftover of this workspace."""
    known = await workspace.kube.list("ConfigMap", OPERATOR_NAMESPACE, labelSelector="gpurelay.dev/leftover")
    return [one["metadata"]["name"] for one in known if workspace.namespace in one["data"]["resource.json"]]


async def settled(workspace: Workspace, told: str) -> None:
    """Nothing is remembered of it, and the account tells of nothing."""
    await eventually(lambda: records(workspace), lambda kept: kept == [], what="nothing is remembered")
    await workspace.becomes("CloudAccount", "default", lambda account: not (account or {})["status"].get(told))


def name_given(workspace: Workspace, uid: str, running: Manifest, *, attempt: int) -> str:
    """The name of an attempt for the object `one` of this UID, by the operator that made what runs."""
    installation = running["status"]["identity"]["installation"]
    return cloud_name(workspace.namespace, "one", uid, installation, attempt)


@KINDS
async def test_what_the_cloud_created_too_late_is_told_and_ended(
    brisk_workspace: Workspace, manifest: Manifest
) -> None:
    workspace, control, kind = brisk_workspace, brisk_workspace.cloud.control, manifest["kind"]
    await workspace.apply(manifest)
    running = await workspace.becomes(kind, "one")
    terminate = BY_ITSELF[kind][4]
    refused = await control.fault(terminate, {"status": 503}, organizationId=workspace.organization.id)
    late = await create(workspace, kind, name_given(workspace, running["metadata"]["uid"], running, attempt=7))
    told = await workspace.becomes(kind, "one", lambda item: condition(item, "LateCreate"))
    assert late in condition(told, "LateCreate")["message"]
    await control.end_fault(refused)
    await eventually(lambda: left(workspace), lambda alive: alive == [running["status"]["id"]], what="it is ended")
    await settled(workspace, "unclaimed")
    after = await workspace.becomes(kind, "one", lambda item: not condition(item, "LateCreate"))
    assert ready(after)
    assert after["status"]["id"] == running["status"]["id"]
    assert len([one for one in await asked(workspace, terminate) if one["status"] < 400]) == 1


@KINDS
async def test_an_account_stays_until_a_late_create_has_ended(brisk_workspace: Workspace, manifest: Manifest) -> None:
    workspace, kube, kind = brisk_workspace, brisk_workspace.kube, manifest["kind"]
    await workspace.apply(manifest)
    running = await workspace.becomes(kind, "one")
    await kube.annotate(kind, "one", {"gpurelay.dev/paused": "true"})
    await workspace.becomes(kind, "one", lambda item: condition(item, "Paused"))
    late = await create(workspace, kind, name_given(workspace, running["metadata"]["uid"], running, attempt=7))
    await kube.delete("CloudAccount", "default")
    told = await workspace.becomes(
        "CloudAccount", "default", lambda account: (account or {})["status"].get("unclaimed")
    )
    assert [one["id"] for one in told["status"]["unclaimed"]] == [late]
    assert sorted(await left(workspace)) == sorted([late, running["status"]["id"]])
    # A paused object holds back the end of its late create; without that object, only the account is left to end it.
    await kube.annotate(kind, "one", {"gpurelay.dev/abandon": "true"})
    await kube.delete(kind, "one")
    await workspace.is_gone(kind, "one")
    await workspace.is_gone("CloudAccount", "default")
    assert await left(workspace) == [running["status"]["id"]]
    assert len(await records(workspace)) == 1, "of what was kept on purpose"


@POD
async def test_a_lost_pod_is_found_by_what_is_paid_for(brisk_workspace: Workspace, manifest: Manifest) -> None:
    """No webhook tells of it, and the cloud has no list of pods: the usage names it."""
    workspace, kind = brisk_workspace, manifest["kind"]
    control, organization = workspace.cloud.control, workspace.organization
    await control.fault(CREATE_POD, {"drop": "after"}, count=1, organizationId=organization.id)
    await workspace.apply(manifest)
    found = await workspace.becomes(kind, "one")
    assert await left(workspace) == [found["status"]["id"]]
    assert await count(workspace, CREATE_POD) == 1


async def name_of_nobody(workspace: Workspace, kind: str, manifest: Manifest) -> str:
    """As this operator would have named what an object had that is gone."""
    await workspace.apply(manifest)
    running = await workspace.becomes(kind, "one")
    return name_given(workspace, "01234567-89ab-0000-0000-000000000000", running, attempt=1)


@KINDS
async def test_what_belongs_to_no_object_is_told_and_left(brisk_workspace: Workspace, manifest: Manifest) -> None:
    workspace, kind = brisk_workspace, manifest["kind"]
    name = await name_of_nobody(workspace, kind, manifest)
    orphan = await create(workspace, kind, name)
    told = await workspace.becomes("CloudAccount", "default", lambda account: (account or {})["status"].get("orphans"))
    (one,) = told["status"]["orphans"]
    assert (one["kind"], one["id"], one["name"]) == (kind, orphan, name)
    assert orphan in await left(workspace)
    assert await count(workspace, BY_ITSELF[kind][4]) == 0


@POD
async def test_an_orphan_is_ended_after_a_day_where_the_account_says_so(
    brisk_workspace: Workspace, brisk: Operator, manifest: Manifest
) -> None:
    workspace, kind = brisk_workspace, manifest["kind"]
    orphan = await create(workspace, kind, await name_of_nobody(workspace, kind, manifest))
    (record,) = await eventually(lambda: records(workspace), what="it is told")
    patch = {"spec": {"orphans": "Delete"}}
    await workspace.kube.patch("CloudAccount", "default", patch)
    asked = await count(workspace, READ_VM)
    await eventually(lambda: count(workspace, READ_VM), lambda now: now > asked + 4, what="it was looked at again")
    assert orphan in await left(workspace)
    kept = await workspace.kube.get("ConfigMap", record, namespace=OPERATOR_NAMESPACE)
    old = json.loads(kept["data"]["resource.json"]) | {"since": "2026-01-01T00:00:00Z"}
    await workspace.kube.patch(
        "ConfigMap", record, {"data": {"resource.json": json.dumps(old)}}, namespace=OPERATOR_NAMESPACE
    )
    await brisk.kill()
    await brisk.start()
    await eventually(lambda: left(workspace), lambda alive: orphan not in alive, what="it is ended")
    await settled(workspace, "orphans")


@KINDS
async def test_what_is_kept_on_purpose_is_told_and_never_ended(brisk_workspace: Workspace, manifest: Manifest) -> None:
    workspace, kind = brisk_workspace, manifest["kind"]
    await workspace.kube.patch("CloudAccount", "default", {"spec": {"orphans": "Delete"}})
    manifest = {**manifest, "spec": {**manifest["spec"], "deletionPolicy": "Orphan"}}
    await workspace.apply(manifest)
    running = await workspace.becomes(kind, "one")
    await workspace.kube.delete(kind, "one")
    await workspace.is_gone(kind, "one")
    told = await workspace.becomes("CloudAccount", "default", lambda account: (account or {})["status"].get("kept"))
    (one,) = told["status"]["kept"]
    assert (one["id"], one["of"]) == (running["status"]["id"], f"{workspace.namespace}/one")
    assert not told["status"].get("orphans")
    adopter = {**gpu_pod("two"), "spec": manifest["spec"] | {"deletionPolicy": "Delete"}}
    adopter = {**adopter, "kind": kind}
    adopter["metadata"] = {**adopter["metadata"], "annotations": {"gpurelay.dev/adopt-id": running["status"]["id"]}}
    await workspace.apply(adopter)
    await workspace.becomes(kind, "two")
    await settled(workspace, "kept")
    await workspace.kube.delete(kind, "two")
    await workspace.is_gone(kind, "two")
    assert await left(workspace) == []


@KINDS
async def test_an_object_that_is_forced_away_leaves_an_orphan(brisk_workspace: Workspace, manifest: Manifest) -> None:
    workspace, kind = brisk_workspace, manifest["kind"]
    await workspace.apply(manifest)
    running = await workspace.becomes(kind, "one")
    await workspace.kube.annotate(kind, "one", {"gpurelay.dev/paused": "true"})
    await workspace.kube.delete(kind, "one")
    await workspace.kube.patch(kind, "one", {"metadata": {"finalizers": None}})
    told = await workspace.becomes("CloudAccount", "default", lambda account: (account or {})["status"].get("orphans"))
    (one,) = told["status"]["orphans"]
    assert (one["id"], one["of"]) == (running["status"]["id"], f"{workspace.namespace}/one")
    assert await left(workspace) == [running["status"]["id"]]


def no_records(workspace: Workspace) -> AbstractAsyncContextManager[None]:
    """An admission policy that lets nobody write down what is left of this workspace."""
    kube, name = workspace.kube, f"no-records-{workspace.namespace}"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    expression = f"!has(object.data) || !object.data.exists(key, object.data[key].contains('{workspace.namespace}/'))"
    metadata = {"name": name, "namespace": OPERATOR_NAMESPACE}
    record = {"kind": "ConfigMap", "metadata": metadata, "data": {"rehearsal": f"{workspace.namespace}/"}}
    rehearsal = partial(kube.create, record, dry_run=True)
    return refusing(kube, name, rule, expression, REFUSAL, rehearsal)


@POD
async def test_an_object_says_that_it_waits_for_the_record_of_what_it_leaves(
    brisk_workspace: Workspace, manifest: Manifest
) -> None:
    workspace, kind = brisk_workspace, manifest["kind"]
    await workspace.apply({**manifest, "spec": {**manifest["spec"], "deletionPolicy": "Orphan"}})
    running = await workspace.becomes(kind, "one")
    async with no_records(workspace):
        await workspace.kube.delete(kind, "one")
        told = await workspace.becomes(kind, "one", lambda item: condition(item, "LeftoverUnrecorded"))
        stalled = condition(told, "Stalled")
        assert stalled["reason"] == "LeftoverUnrecorded"
        assert stalled["message"].startswith(f"{running['status']['id']} stays in the cloud")
        assert REFUSAL in stalled["message"]
        account = await workspace.becomes(
            "CloudAccount", "default", lambda item: condition(item or {}, "LeftoverUnrecorded")
        )
        assert ready(account)
        await eventually(partial(warned, workspace, kind), what="an Event tells of it")
    await workspace.is_gone(kind, "one")
    assert len(await records(workspace)) == 1
    await workspace.becomes("CloudAccount", "default", lambda item: not condition(item or {}, "LeftoverUnrecorded"))


async def warned(workspace: Workspace, kind: str) -> bool:
    """Whether an Event of the object's tells that its leftover is not recorded."""
    events = await workspace.kube.list("Event")
    return any((one["involvedObject"]["kind"], one["reason"]) == (kind, "LeftoverUnrecorded") for one in events)
