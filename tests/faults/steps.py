"""The steps of scenarios: acts of people on running objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cluster.batch_schedule.runs import BATCH, Runs
from tests.cluster.cloud_side import new_key, revoke
from tests.faults.batch_steps import LIST_BATCHES
from tests.faults.scenarios import LOOKS_AT_AN_ACCOUNT, STARTED, Step, workload
from tests.support.faultrules import Side
from tests.support.manifests import SECRET_KEY, api_key_secret, cloud_account, condition

if TYPE_CHECKING:
    from tests.faults.ground import Ground
    from tests.support.kube import Kube, Manifest

OTHER = "other"


def changed(phase: str, **spec: object) -> Step:
    """Returns a step that changes fields of the spec."""

    async def act(ground: Ground) -> None:
        await ground.kube.patch(ground.scenario.kind.name, ground.scenario.object, {"spec": spec})

    return Step(phase, act)


async def _rotate(ground: Ground) -> None:
    workspace, former = ground.workspace, ground.workspace.organization
    key = await new_key(former)
    workspace.organization = former.with_key(key)
    ground.organizations[0] = workspace.organization
    await ground.kube.apply(api_key_secret(key))
    await revoke(former, former.api_key)


async def put_back(kube: Kube, item: Manifest, name: str, *, status: bool = True) -> Manifest:
    """Creates a copy with annotations, finalizers and status, as a restore tool does: paused until the end."""
    kind, metadata = item["kind"], item["metadata"]
    paused = metadata.get("annotations", {}) | {"gpurelay.dev/paused": "true"}
    kept = {"name": name, "annotations": paused, "finalizers": metadata.get("finalizers", [])}
    made = await kube.create({"apiVersion": item["apiVersion"], "kind": kind, "metadata": kept, "spec": item["spec"]})
    if status and item.get("status"):
        await kube.patch(kind, name, {"status": item["status"]}, subresource="status")
    await kube.annotate(kind, name, {"gpurelay.dev/paused": None})
    return made


async def _copy(ground: Ground) -> None:
    item = await ground.found()
    assert item is not None
    await put_back(ground.kube, item, "copied")


async def _replace_by_namesake(ground: Ground) -> None:
    """Forces the object away and creates another with the same name."""
    kind, name = ground.scenario.kind.name, ground.scenario.object
    await ground.workspace.force_away(kind, name)
    await ground.workspace.apply(workload(ground.scenario))


async def _replace_in_mid_create(ground: Ground) -> None:
    """Replaces the object; forces the new one away during its create, and creates another with the same name."""
    kind, name = ground.scenario.kind.name, ground.scenario.object
    await ground.kube.delete(kind, name)
    await ground.workspace.is_gone(kind, name)
    control, organization = ground.workspace.cloud.control, ground.workspace.organization
    create = ground.scenario.kind.create.replace("orgs/{id}", "orgs/{orgId}")
    await control.fault(create, {"delaySeconds": 2}, organizationId=organization.id, count=1)
    await ground.workspace.apply(workload(ground.scenario))

    def begun(item: Manifest | None) -> bool:
        return bool((item or {"metadata": {}})["metadata"].get("finalizers"))

    await ground.workspace.becomes(kind, name, begun)
    await _replace_by_namesake(ground)


async def _lose_status(ground: Ground) -> None:
    """Empties the status, as a restore without status does."""
    item = await ground.found()
    assert item is not None
    empty = dict.fromkeys(item["status"])
    await ground.kube.patch(item["kind"], item["metadata"]["name"], {"status": empty}, subresource="status")


async def apply_another_account(ground: Ground) -> None:
    """Applies a second account, which belongs to another organization."""
    organization = await ground.site.cloud.control.create_organization(f"{ground.namespace}-{OTHER}")
    ground.organizations.append(organization)
    await ground.kube.create(api_key_secret(organization.api_key, OTHER))
    account = cloud_account(ground.site.urls[Side.CLOUD], ground.site.urls[Side.INFERENCE], OTHER)
    account["spec"]["apiKeySecretRef"] = {"name": OTHER, "key": SECRET_KEY}
    await ground.workspace.apply(account)


async def _move(ground: Ground) -> None:
    """Moves the object to an account of another organization by deleting and recreating it."""
    await apply_another_account(ground)
    kind, name = ground.scenario.kind.name, ground.scenario.object
    await ground.kube.delete(kind, name)
    await ground.workspace.is_gone(kind, name)
    moved = workload(ground.scenario)
    moved["spec"]["accountRef"] = {"name": OTHER}
    await ground.workspace.apply(moved)


def _left(phase: str, policy: str) -> Step:
    async def act(ground: Ground) -> None:
        """Deletes the object with a policy that leaves its resource in the cloud; another takes its name."""
        kind, name = ground.scenario.kind.name, ground.scenario.object
        await ground.kube.patch(kind, name, {"spec": {"deletionPolicy": policy}})
        await ground.kube.delete(kind, name)
        await ground.workspace.is_gone(kind, name)
        await ground.workspace.apply(workload(ground.scenario))

    return Step(phase, act)


def _restored(phase: str, *, status: bool) -> Step:
    async def act(ground: Ground) -> None:
        """Loses the object but not its resource; a backup tool recreates the object, with another UID."""
        kube, saved = ground.kube, await ground.found()
        assert saved is not None
        kind, name, metadata = saved["kind"], saved["metadata"]["name"], saved["metadata"]
        await kube.annotate(kind, name, {"gpurelay.dev/abandon": "true"})
        await kube.delete(kind, name)
        await ground.workspace.is_gone(kind, name)
        kept = {"name": name, "annotations": metadata["annotations"] | {"gpurelay.dev/paused": "true"}}
        brought = {"apiVersion": saved["apiVersion"], "kind": kind, "metadata": kept, "spec": saved["spec"]}
        made = await kube.create(brought)
        ground.heirs[made["metadata"]["uid"]] = metadata["uid"]
        if status:
            await kube.patch(kind, name, {"status": saved["status"]}, subresource="status")
        await kube.annotate(kind, name, {"gpurelay.dev/paused": None})

    return Step(phase, act)


async def _beside_a_neighbour(ground: Ground) -> None:
    """Gives another cluster an object of the same name and organization, then recreates this one."""
    kind, name = ground.scenario.kind.name, ground.scenario.object
    assert ground.site.neighbour is not None, "this scenario needs a stage with a neighbour"
    await ground.site.neighbour.moves_in(ground.namespace, ground.workspace.organization, workload(ground.scenario))
    await ground.kube.delete(kind, name)
    await ground.workspace.is_gone(kind, name)
    await ground.workspace.apply(workload(ground.scenario))


async def _start_again(ground: Ground) -> None:
    # The first sweep of a process, right after its first look at an account, ends with the list of batches.
    await ground.site.start_again({*LOOKS_AT_AN_ACCOUNT, *ground.scenario.kind.look, LIST_BATCHES})


async def _fire(ground: Ground) -> None:
    """Runs the schedule's first batch and waits until it says that it is paused."""
    runs = Runs(ground.workspace)
    await runs.create()
    await runs.run(0)
    await ground.workspace.becomes(BATCH, runs.batch(0), lambda item: bool(condition(item, "Paused")))


STOP, START = changed("stop", powerState="Stopped"), changed("start", powerState="Running")
SCALE_UP, SCALE_DOWN = changed("scale up", replicas=3), changed("scale down", replicas=1)
RECREATE = changed("recreate", image="example.com/other:1", updateStrategy={"type": "Recreate"})
BLUE_GREEN = changed(
    "blue and green", image="example.com/other:1", updateStrategy={"type": "BlueGreen", "drainSeconds": 1}
)
ROTATE = Step("rotate", _rotate)
COPY = Step("copy", _copy)
ORPHAN, STOP_AND_KEEP = _left("orphan", "Orphan"), _left("stop and keep", "Stop")
NAMESAKE_IN_MID_CREATE = Step("namesake in mid-create", _replace_in_mid_create)
NAMESAKE = Step("namesake", _replace_by_namesake)
LOSE_STATUS = Step("lose status", _lose_status)
FIRE = Step("fire", _fire)
RESTORE = _restored("restore", status=True)
RESTORE_WITHOUT_STATUS = _restored("restore", status=False)
NEIGHBOUR = Step("beside a neighbour", _beside_a_neighbour)
START_AGAIN = Step(STARTED, _start_again)
MOVE = Step("move", _move)
