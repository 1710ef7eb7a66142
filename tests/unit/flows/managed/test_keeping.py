"""What exists: how often it is looked at, what is changed in it, and what happens when it ends by itself."""

import itertools

import pytest
from pydantic import JsonValue

from relay_client import CapacityExhausted, Conflict, PaymentRequired
from relay_kube.kube import CONFIG_MAPS, SECRETS
from relay_operator.api import meta
from relay_operator.api.conditions import ConditionType
from relay_operator.flows.managed.connection import Reached
from relay_operator.flows.managed.resource import Look
from relay_wire.vms import VmRecord
from tests.unit.engine.apiserver import Call, Fault, Json, status_fault
from tests.unit.flows.managed.cloudpods import lost, refused
from tests.unit.flows.managed.world import NAMESPACE, World


async def made(world: World, **spec: JsonValue) -> None:
    world.apply("train", **spec)
    await world.settle()


async def becomes(world: World, state: str, **fields: object) -> None:
    """The cloud changes it, and a webhook tells."""
    world.pods.become(world.status().id or "", state, **fields)
    world.hint()
    await world.settle()


async def test_a_settled_object_costs_no_writes_and_few_looks(world: World) -> None:
    await made(world)
    writes, looks = len(world.server.writes), len(world.resource.looks)
    await world.wait(1500, step=5)
    assert len(world.server.writes) == writes
    assert 4 <= len(world.resource.looks) - looks <= 7
    assert set(world.resource.looks[looks:]) == {Look.ROUTINE}


async def test_what_is_on_its_way_is_looked_at_quickly_and_ever_more_slowly(world: World) -> None:
    world.pods.born = "deploying"
    await made(world)
    times: list[float] = []
    world.pods.on_call = lambda _: times.append(world.clock.seconds)
    await world.wait(200)
    pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert times[0] <= 6
    assert pauses == sorted(pauses)
    assert len(times) <= 6


async def test_a_change_that_only_a_poll_found_is_told_to_the_account(world: World) -> None:
    await made(world)
    await world.wait(400, step=5)
    await becomes(world, "stopped")
    await world.wait(10)
    assert world.account.untold == 0, "a webhook told"
    world.pods.become("pod-1", "interrupted")
    await world.wait(800, step=5)
    assert world.account.untold == 0, "the cloud sends no event of this"
    world.pods.become("pod-1", "running")
    await world.wait(800, step=5)
    world.pods.become("pod-1", "terminated")
    await world.wait(800, step=5)
    assert world.account.untold == 1, "transitions are polled anyway; what was settled is not"


async def test_a_change_while_no_operator_ran_is_nothing_a_webhook_could_have_told(world: World) -> None:
    await made(world)
    world.pods.become("pod-1", "terminated")
    await world.restart()
    await world.wait(800, step=5)
    assert (world.reason(), world.account.untold) == ("TerminatedExternally", 0)


async def test_a_change_seen_makes_the_looks_quick_again(world: World) -> None:
    world.pods.born = "deploying"
    await made(world)
    await world.wait(200)
    await becomes(world, "deploying", provisioning_stage="pulling")
    looks = len(world.resource.looks)
    await world.wait(6)
    assert len(world.resource.looks) == looks + 1


async def test_a_refresh_that_was_asked_for_is_echoed(world: World) -> None:
    await made(world)
    world.annotate(reconcile_at="now")
    await world.settle()
    assert world.status().reconcile_at == "now"
    assert world.resource.looks[-1] is Look.EXACT


async def test_the_power_follows_the_spec(world: World) -> None:
    await made(world)
    world.change(powerState="Stopped")
    await world.settle()
    assert world.reason() == "Stopping"
    await world.wait(10)
    assert world.reason() == "Stopped"
    world.change(powerState="Running")
    await world.wait(10)
    assert world.reason() == "Running"
    assert [call for call in world.pods.calls if call in ("stop", "start")] == ["stop", "start"]


async def test_a_restart_is_done_once_for_each_value_of_its_annotation(world: World) -> None:
    await made(world)
    world.annotate(restarted_at="one")
    await world.wait(60)
    assert (world.pods.count("restart"), world.status().restarted_at) == (1, "one")
    world.annotate(restarted_at="two")
    await world.wait(60)
    assert world.pods.count("restart") == 2


@pytest.mark.parametrize("change", ["visibility", "stop"])
async def test_a_change_is_not_sent_again_at_each_poll_until_the_cloud_shows_it(world: World, change: str) -> None:
    await made(world)
    world.pods.deaf = True
    asked: dict[str, JsonValue] = {"public": True} if change == "visibility" else {"powerState": "Stopped"}
    world.change(**asked)  # type: ignore[arg-type]
    await world.wait(25)
    assert (world.pods.count(change), world.reason()) == (1, "Updating" if change == "visibility" else "Stopping")
    await world.wait(60)
    assert 2 <= world.pods.count(change) <= 3, "what the cloud lost is sent again after a while"
    world.pods.deaf = False
    await world.wait(600)
    assert world.reason() == ("Running" if change == "visibility" else "Stopped")


async def test_what_people_ask_for_otherwise_is_sent_at_once(world: World) -> None:
    await made(world)
    world.change(public=True)
    await world.settle()
    world.change(public=False)
    await world.settle()
    world.change(public=True)
    await world.settle()
    assert (world.pods.count("visibility"), world.pods.records["pod-1"].public) == (3, True)


async def test_a_change_the_cloud_can_make_is_made_and_one_it_cannot_is_told(world: World) -> None:
    await made(world)
    world.change(public=True)
    await world.settle()
    assert world.pods.records["pod-1"].public is True
    world.change(volumeGb=100)
    await world.settle()
    stalled = world.condition(ConditionType.STALLED)
    assert stalled is not None
    assert "volumeGb: asked 100, has 50" in stalled.message
    assert world.reason() == "ImmutableFieldChanged"


async def test_recreate_ends_the_old_one_before_it_makes_another(world: World) -> None:
    await made(world, updateStrategy={"type": "Recreate"})
    world.change(image="another")
    states: list[int] = []
    world.pods.on_call = lambda _: states.append(len(world.pods.live))
    await world.wait(40)
    assert max(states) == 1
    assert [record.image_url for record in world.pods.live] == ["another"]
    assert (world.status().id, world.status().replacing, world.reason()) == ("pod-2", None, "Running")


async def test_a_new_resource_does_not_read_as_ending_because_the_old_one_did(world: World) -> None:
    await made(world, updateStrategy={"type": "Recreate"})
    world.change(image="another")
    while world.status().id != "pod-2":
        await world.wait(1)
    world.hint()
    await world.settle()
    assert world.reason() == "Running"


async def test_a_refused_start_waits_as_agreed_while_a_stop_does_not(world: World) -> None:
    await made(world)
    world.pods.fail("start", *[refused(Conflict, code="POD_NODE_BUSY")] * 3)
    await becomes(world, "stopped")
    assert world.reason() == "PodNodeBusy"
    world.hint()
    await world.settle()
    assert world.pods.count("start") == 1
    await world.wait(30)
    assert (world.pods.count("start"), world.reason()) == (4, "Running")


async def test_no_funds_to_start_tells_until_when_it_is_kept(world: World) -> None:
    await made(world)
    world.pods.fail("start", refused(PaymentRequired))
    await becomes(world, "stopped")
    assert world.reason() == "BalanceExhausted"
    deadline = world.status().deletion_deadline
    assert deadline is not None
    assert (deadline - world.clock.wall()).days == 7
    world.change(powerState="Stopped")
    await world.wait(400)
    assert (world.reason(), world.status().deletion_deadline) == ("Stopped", deadline)
    ready = world.condition()
    assert ready is not None
    assert "deleted by the cloud with its volume" in ready.message
    world.change(powerState="Running")
    await world.wait(400)
    assert (world.reason(), world.status().deletion_deadline) == ("Running", None)


async def test_what_is_waited_for_meanwhile_leaves_the_deadline(world: World) -> None:
    """It is the cloud's, and says when a volume is lost: whatever is reported, until the pod is started."""
    await made(world)
    world.pods.fail("start", refused(PaymentRequired))
    await becomes(world, "stopped")
    deadline = world.status().deletion_deadline
    assert deadline is not None
    world.change(lifetime={"schedule": {"timeZone": "UTC", "start": "0 0 30 2 *", "stop": "0 1 * * *"}})
    await world.settle()
    assert (world.reason(), world.status().deletion_deadline) == ("ScheduleInvalid", deadline)
    world.change(lifetime=None, budget={"maxPricePerHourCents": 0})
    await world.settle()
    assert (world.reason(), world.status().deletion_deadline) == ("BudgetExceeded", deadline)
    world.change(budget=None)
    await world.settle()
    assert (world.pods.count("start"), world.status().deletion_deadline) == (2, None)


async def test_an_interruption_tells_until_when_it_is_kept_and_is_waited_out(world: World) -> None:
    await made(world)
    await becomes(world, "interrupted")
    ready = world.condition()
    assert ready is not None
    assert (ready.reason, "interrupted since 2026-03-01T12:00:00Z" in ready.message) == ("Interrupted", True)
    assert world.status().deletion_deadline is not None
    await becomes(world, "running")
    assert (world.reason(), world.status().deletion_deadline) == ("Running", None)


async def test_what_was_ended_by_another_hand_stalls_or_is_made_anew(world: World) -> None:
    await made(world)
    await becomes(world, "terminated")
    assert world.reason() == "TerminatedExternally"
    world.change(recovery={"onTerminated": "Recreate"})
    await world.wait(10)
    assert (world.status().id, world.reason()) == ("pod-2", "Running")


async def test_what_was_ended_by_another_hand_stays_so_when_the_cloud_forgets_it(world: World) -> None:
    await made(world)
    await becomes(world, "terminated")
    reasons = {world.reason()}
    del world.pods.records["pod-1"]
    for _ in range(60):
        world.hint()
        await world.wait(1)
        reasons.add(world.reason())
    assert reasons == {"TerminatedExternally"}
    assert world.status().state == "terminated"


async def test_an_interruption_that_lasts_is_ended_and_made_anew_where_asked(world: World) -> None:
    await made(world, recovery={"onInterrupted": "Recreate", "afterSeconds": 100})
    await becomes(world, "interrupted")
    await world.wait(95)
    assert world.pods.count("delete") == 0
    await world.wait(30)
    assert (world.status().id, world.reason(), len(world.pods.live)) == ("pod-2", "Running", 1)


async def test_a_failure_is_told_in_the_clouds_words(world: World) -> None:
    await made(world)
    await becomes(world, "failed", status_reason="exit code 137")
    stalled = world.condition(ConditionType.STALLED)
    assert stalled is not None
    assert (stalled.reason, "exit code 137" in stalled.message) == ("Failed", True)


async def test_failures_are_restarted_ever_more_slowly(world: World) -> None:
    await made(world, recovery={"onFailed": "Restart"})
    starts: list[float] = []
    world.pods.on_call = lambda call: starts.append(world.clock.seconds) if call == "start" else None
    for _ in range(200):
        if world.pods.records["pod-1"].status == "running":
            world.pods.become("pod-1", "failed")
            world.hint()
        await world.wait(2)
    pauses = [later - earlier for earlier, later in itertools.pairwise(starts)]
    assert starts[0] <= 2
    assert pauses == sorted(pauses)
    assert 5 <= len(starts) <= 7


LOOPS: dict[str, tuple[JsonValue, str]] = {
    "a crash loop": ({"onFailed": "Recreate"}, "failed"),
    "what is ended again and again": ({"onTerminated": "Recreate"}, "terminated"),
    "what is interrupted again and again": ({"onInterrupted": "Recreate", "afterSeconds": 0}, "interrupted"),
}


@pytest.mark.parametrize(("recovery", "state"), LOOPS.values(), ids=LOOPS)
async def test_recreations_in_a_loop_are_paid_for_ever_more_seldom(
    world: World, recovery: JsonValue, state: str
) -> None:
    await made(world, recovery=recovery)
    times: list[float] = []
    world.pods.on_call = lambda call: times.append(world.clock.seconds) if call == "create" else None
    for _ in range(1000):
        running = [record.id for record in world.pods.live if record.status == "running"]
        for cloud_id in running:
            world.pods.become(cloud_id, state)
            world.hint()
        await world.wait(2)
    pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert times[0] <= 40
    assert pauses == sorted(pauses)
    assert 8 <= len(times) <= 12
    assert max(pauses) >= 300
    assert len(world.pods.live) <= 1


async def test_a_crash_loop_is_told_with_how_often_and_when_next(world: World) -> None:
    await made(world, recovery={"onFailed": "Recreate"})
    await becomes(world, "failed", status_reason="exit code 1")
    await world.wait(40)
    assert (world.status().id, world.status().recoveries) == ("pod-2", 1)
    begun = world.clock.wall()
    await becomes(world, "failed", status_reason="exit code 1")
    ready, again = world.condition(), world.status().next_attempt_time
    assert ready is not None
    assert again is not None
    assert (ready.reason, ready.status) == ("BackOff", "False")
    assert "exit code 1; recreated 1 time without" in ready.message
    assert f"next at {again.strftime('%Y-%m-%dT%H:%M:%SZ')}" in ready.message
    assert (again - begun).total_seconds() == 10
    writes = len(world.server.writes)
    world.hint()
    await world.wait(8)
    assert (world.status().id, len(world.server.writes)) == ("pod-2", writes)
    await world.wait(40)
    assert (world.status().id, world.status().recoveries, world.status().next_attempt_time) == ("pod-3", 2, None)


async def test_a_crash_loop_ends_at_once_with_another_spec(world: World) -> None:
    await made(world, recovery={"onFailed": "Recreate"})
    await becomes(world, "failed")
    await world.wait(40)
    await becomes(world, "failed")
    world.change(image="repaired")
    await world.settle()
    assert world.reason() == "Recreating"
    await world.wait(40)
    assert [record.image_url for record in world.pods.live] == ["repaired"]


async def test_a_run_that_lasted_makes_the_next_recovery_quick_again(world: World) -> None:
    await made(world, recovery={"onFailed": "Recreate"})
    for _ in range(3):
        await becomes(world, "failed")
        await world.wait(100)
    assert world.status().recoveries == 3
    await world.wait(900, step=5)
    assert world.status().recoveries is None
    await becomes(world, "failed")
    assert world.reason() == "Recreating"


async def test_what_never_becomes_as_asked_is_not_recreated_without_a_pause(world: World) -> None:
    """As where the cloud calls the image by another name than the spec."""
    await made(world, updateStrategy={"type": "Recreate"})

    def another_name(call: str) -> None:
        if call == "create":
            newest = list(world.pods.records)[-1]
            world.pods.become(newest, "running", image_url="docker.io/pytorch/pytorch")

    world.pods.on_call = another_name
    world.pods.become("pod-1", "running", image_url="docker.io/pytorch/pytorch")
    reasons = set()
    for _ in range(300):
        world.hint()
        await world.wait(4)
        reasons.add(world.reason())
    assert 6 <= world.pods.count("create") <= 9
    assert "BackOff" in reasons


async def test_a_failure_after_a_short_run_waits_from_the_failure_on(world: World) -> None:
    await made(world, recovery={"onFailed": "Restart"})
    for _ in range(4):
        await becomes(world, "failed")
        await world.wait(100)
    assert world.pods.count("start") == 4
    await world.wait(200)
    await becomes(world, "failed")
    await world.wait(30)
    assert world.pods.count("start") == 4


async def test_a_failure_is_recreated_where_asked(world: World) -> None:
    await made(world, recovery={"onFailed": "Recreate"})
    await becomes(world, "failed")
    await world.wait(30)
    assert (world.status().id, world.reason(), len(world.pods.live)) == ("pod-2", "Running", 1)


async def test_a_pod_stops_when_its_time_is_up_and_rests_without_a_loop(world: World) -> None:
    await made(world, lifetime={"maxRuntimeSeconds": 60})
    await world.wait(59)
    assert world.pods.count("stop") == 0
    await world.wait(20)
    assert (world.pods.count("stop"), world.reason()) == (1, "MaxRuntimeReached")
    passes = len(world.passes)
    await world.wait(1000, step=10)
    assert len(world.passes) - passes <= 5
    assert world.pods.count("start") == 0
    world.annotate(restarted_at="again")
    await world.wait(10)
    assert world.reason() == "Running"


async def test_a_stopped_object_whose_time_is_up_is_deleted_with_its_resource(world: World) -> None:
    await made(world, powerState="Stopped", lifetime={"ttlSecondsAfterStopped": 100})
    await world.wait(90)
    assert world.exists()
    await world.wait(60)
    assert (world.exists(), world.pods.live) == (False, [])


async def test_one_that_is_not_kept_at_all_after_it_stopped_goes_at_once(world: World) -> None:
    await made(world, powerState="Stopped", lifetime={"ttlSecondsAfterStopped": 0})
    await world.wait(40)
    assert (world.exists(), world.pods.live) == (False, [])


@pytest.mark.parametrize(
    "wanted", [{"spec": {"powerState": "Running"}}, {"metadata": {"annotations": {meta.PAUSED: "true"}}}]
)
async def test_one_whose_time_is_up_stays_if_people_want_it_to_while_the_cloud_is_asked(
    world: World, wanted: Json
) -> None:
    await made(world, powerState="Stopped", lifetime={"ttlSecondsAfterStopped": 100})

    def as_it_is_to_be_deleted(call: Call) -> None:
        if call.method == "DELETE":
            world.server.before = lambda _: None
            world.server.edit("gpupods", NAMESPACE, "train", wanted)

    world.server.before = as_it_is_to_be_deleted
    await world.wait(300)
    assert world.obj().metadata.deletion_timestamp is None
    assert len(world.pods.live) == 1


async def test_one_that_the_cloud_stopped_is_kept_for_as_long_after_people_ask_for_that(world: World) -> None:
    await made(world, lifetime={"ttlSecondsAfterStopped": 100})
    world.pods.fail("start", *[refused(PaymentRequired)] * 50)
    await becomes(world, "stopped")
    await world.wait(3 * 3600, step=60)
    world.change(powerState="Stopped")
    await world.wait(90)
    assert world.exists()
    await world.wait(60)
    assert (world.exists(), world.pods.live) == (False, [])


async def test_a_run_that_was_interrupted_begins_anew(world: World) -> None:
    await made(world, lifetime={"maxRuntimeSeconds": 600})
    await world.wait(500)
    await becomes(world, "interrupted")
    await world.wait(60)
    await becomes(world, "running")
    await world.wait(400, step=5)
    assert (world.pods.count("stop"), world.reason()) == (0, "Running")
    await world.wait(300, step=5)
    assert world.reason() == "MaxRuntimeReached"


async def test_paused_past_a_deadline_rests_without_a_loop(world: World) -> None:
    await made(world, lifetime={"maxRuntimeSeconds": 60})
    world.annotate(paused="true")
    await world.wait(300)
    assert (world.pods.count("stop"), world.reason()) == (0, "Running")
    assert len(world.passes) < 10


async def test_a_silent_cloud_is_told_after_a_while_and_ready_stays_what_it_was(world: World) -> None:
    await made(world)
    world.pods.fail("observe", *[lost(acted=False)] * 4)
    world.hint()
    await world.settle()
    assert world.condition(ConditionType.STALLED) is None
    await world.wait(4)
    stalled = world.condition(ConditionType.STALLED)
    assert stalled is not None
    assert (stalled.reason, world.reason()) == ("CloudUnavailable", "Running")
    await world.wait(30)
    assert world.condition(ConditionType.STALLED) is None


async def test_looks_in_vain_count_for_their_own_pace_alone(world: World) -> None:
    """Neither does the next create try another model, nor does it wait longer, because the cloud was silent."""
    await made(world)
    world.pods.fail("observe", *[lost(acted=False)] * 12)
    world.hint()
    await world.settle()
    looks = len(world.resource.looks)
    await world.wait(60)
    stalled = world.condition(ConditionType.STALLED)
    assert stalled is not None
    assert stalled.reason == "CloudUnavailable"
    assert len(world.resource.looks) - looks <= 6
    assert world.status().failures is None


async def test_a_reason_of_another_release_is_carried_on(world: World) -> None:
    await made(world)
    raw = world.raw()
    status = raw["status"]
    assert isinstance(status, dict)
    conditions = status["conditions"]
    assert isinstance(conditions, list)
    written = conditions[0]
    assert isinstance(written, dict)
    world.server.edit(
        "gpupods", NAMESPACE, "train", {"status": {"conditions": [written | {"reason": "FromTheFuture"}]}}, status=True
    )
    world.annotate(paused="true")
    await world.settle()
    assert world.reason() == "FromTheFuture"


async def test_a_status_that_is_not_taken_is_written_later(world: World) -> None:
    world.pods.born = "deploying"
    await made(world)
    world.server.faults.append(status_fault(500))
    await becomes(world, "running")
    assert (world.reason(), world.passes[-1].outcome) == ("Deploying", "error")
    await world.wait(1)
    assert world.reason() == "Running"


async def test_the_api_server_is_asked_ever_more_slowly_while_it_refuses(world: World) -> None:
    world.server.faults.append(Fault(500, times=100_000))
    world.apply()
    await world.wait(600)
    assert 20 <= len(world.passes) <= 40


async def test_the_endpoint_is_written_for_others_and_what_is_in_the_way_is_told(world: World) -> None:
    await world.kube.create(SECRETS, NAMESPACE, {"metadata": {"name": "taken"}, "data": {}})
    await made(world, connection={"secret": {"name": "taken"}})
    world.hint()
    await world.settle()
    ready = world.condition()
    assert ready is not None
    assert (ready.reason, ready.status, "taken" in ready.message) == ("ConnectionRefused", "False", True)
    world.server.remove("secrets", NAMESPACE, "taken")
    world.hint()
    await world.settle()
    assert world.reason() == "Running"
    assert ("secrets", NAMESPACE, "taken") in world.server.objects


async def connected(world: World) -> None:
    await made(world, connection={"secret": {"name": "there"}, "configMap": {"name": "there"}})
    world.hint()
    await world.settle()


@pytest.mark.parametrize("plural", ["secrets", "configmaps"])
@pytest.mark.parametrize("deed", ["deleted", "edited"])
async def test_what_others_connect_by_is_written_again_where_somebody_took_or_changed_it(
    world: World, plural: str, deed: str
) -> None:
    await connected(world)
    before = world.server.objects[plural, NAMESPACE, "there"]["data"]
    if deed == "deleted":
        world.server.remove(plural, NAMESPACE, "there", force=True)
    else:
        world.server.edit(plural, NAMESPACE, "there", {"data": {"endpointUrl": "eA=="}})
    await world.wait(800, step=5)
    assert world.server.objects[plural, NAMESPACE, "there"]["data"] == before


async def test_what_others_connect_by_is_written_at_once_where_a_refresh_is_asked_for(world: World) -> None:
    await connected(world)
    for plural in ("secrets", "configmaps"):
        world.server.remove(plural, NAMESPACE, "there", force=True)
    world.annotate(reconcile_at="now")
    await world.settle()
    assert {("secrets", NAMESPACE, "there"), ("configmaps", NAMESPACE, "there")} <= set(world.server.objects)


async def test_what_others_connect_by_costs_one_read_a_poll_and_no_write(world: World) -> None:
    await connected(world)
    await world.wait(10)
    calls, looks = len(world.server.calls), len(world.resource.looks)
    await world.wait(1500, step=5)
    made_since = [call.method for call in world.server.calls[calls:]]
    assert made_since == ["GET"] * (len(world.resource.looks) - looks)


async def test_what_others_connect_by_is_read_by_exact_looks_where_a_list_does_not_tell_it(world: World) -> None:
    """As with clusters, whose list has no deploy token."""
    await connected(world)
    whole = world.resource.reached

    def in_part(seen: VmRecord) -> Reached | None:
        return whole(seen) if world.resource.looks[-1] is Look.EXACT else None

    world.resource.reached = in_part  # type: ignore[method-assign,assignment]
    for plural in ("secrets", "configmaps"):
        world.server.remove(plural, NAMESPACE, "there", force=True)
    await world.wait(1300, step=5)
    assert {("secrets", NAMESPACE, "there"), ("configmaps", NAMESPACE, "there")} <= set(world.server.objects)


async def test_a_changed_environment_is_told_and_applied_where_asked(world: World) -> None:
    await world.kube.create(CONFIG_MAPS, NAMESPACE, {"metadata": {"name": "conf"}, "data": {"A": "1"}})
    await made(world, envFrom=[{"configMapRef": {"name": "conf"}}])
    world.server.edit("configmaps", NAMESPACE, "conf", {"data": {"A": "2"}})
    world.hint()
    await world.settle()
    assert world.condition(ConditionType.ENV_OUTDATED) is not None
    world.change(updateStrategy={"type": "Recreate"})
    await world.wait(30)
    assert world.pods.sent[-1][1].env == {"A": "2"}
    assert world.condition(ConditionType.ENV_OUTDATED) is None


async def test_another_order_of_variables_recreates_nothing(world: World) -> None:
    variables: list[JsonValue] = [{"name": "B", "value": "2"}, {"name": "A", "value": "1"}]
    await made(world, env=variables, updateStrategy={"type": "Recreate"})
    world.change(env=variables[::-1])
    await world.wait(30)
    assert len(world.pods.sent) == 1
    world.change(env=variables[:1])
    await world.wait(30)
    assert len(world.pods.sent) == 2


async def test_a_missing_environment_holds_the_create_back_and_says_which(world: World) -> None:
    await made(world, envFrom=[{"configMapRef": {"name": "conf"}}])
    ready = world.condition()
    assert ready is not None
    assert (ready.reason, "ConfigMap conf does not exist" in ready.message) == ("EnvMissing", True)
    await world.kube.create(CONFIG_MAPS, NAMESPACE, {"metadata": {"name": "conf"}, "data": {"A": "1"}})
    await world.wait(400)
    assert world.reason() == "Running"


@pytest.mark.parametrize("state", ["running", "stopped"])
async def test_trouble_is_told_as_an_event_once_and_its_end_too(world: World, state: str) -> None:
    world.pods.fail("create", refused(CapacityExhausted, code="NODE_AT_CAPACITY"))
    world.pods.born = state
    await made(world, powerState="Running" if state == "running" else "Stopped")
    await world.wait(10)
    notes = [note for _, _, note in world.recorder._waiting._queue]  # type: ignore[attr-defined]
    assert [(note.type, note.reason) for note in notes] == [
        ("Warning", "WaitingForCapacity"),
        ("Normal", "Recovered"),
    ]


@pytest.mark.parametrize("value", ["x" * 64, "x" * 65, "y" * 200_000])
async def test_an_annotation_of_any_length_is_acted_on_once(world: World, value: str) -> None:
    await made(world)
    world.annotate(restarted_at=value, reconcile_at=value)
    await world.wait(600)
    assert world.pods.count("restart") == 1
    looks = len(world.resource.looks)
    world.annotate(restarted_at=value[:-1] + "z", reconcile_at=value[:-1] + "z")
    await world.wait(600)
    assert world.pods.count("restart") == 2
    assert len(world.resource.looks) - looks < 10


async def test_an_empty_annotation_asks_for_nothing(world: World) -> None:
    await made(world)
    world.annotate(restarted_at="", reconcile_at="")
    await world.wait(200)
    assert world.pods.count("restart") == 0
