"""What exists: how often it is looked at, what is changed in it, and what is told of it."""

import itertools

import pytest
from pydantic import JsonValue

from relay_client import CapacityExhausted, Conflict, HeldBack, PaymentRequired
from relay_kube.kube import CONFIG_MAPS
from relay_operator.api.conditions import ConditionType, Reason
from relay_operator.engine.account import AccountRefused
from relay_operator.engine.memory import MOST_EVENTS
from relay_operator.flows.managed.resource import Look
from tests.unit.engine.apiserver import Fault, status_fault
from tests.unit.flows.managed.cloudpods import Failure, lost, refused
from tests.unit.flows.managed.running import becomes, made
from tests.unit.flows.managed.world import NAMESPACE, World


async def test_a_settled_object_costs_no_writes_and_few_looks(world: World) -> None:
    await made(world)
    await world.wait(400, step=5)  # the first look adds the catalog's price, since this cloud leaves it out
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


async def test_taking_the_annotation_away_or_putting_it_back_is_no_restart(world: World) -> None:
    await made(world)
    world.annotate(restarted_at="one")
    await world.wait(60)
    world.annotate(restarted_at=None)
    await world.wait(60)
    world.change(powerState="Stopped")
    await world.wait(60)
    world.change(powerState="Running")
    await world.wait(60)
    world.annotate(restarted_at="one")
    await world.wait(60)
    assert (world.pods.count("restart"), world.pods.count("start"), world.reason()) == (1, 1, "Running")


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


async def test_a_change_is_not_sent_again_because_the_cloud_could_not_be_read_meanwhile(world: World) -> None:
    await made(world)
    world.pods.deaf = True
    world.change(powerState="Stopped")
    await world.settle()
    looks = world.pods.count("observe")
    world.pods.fail("observe", lost(acted=False))
    await world.wait(25)
    assert (world.pods.count("stop"), world.pods.count("observe") >= looks + 2) == (1, True)


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
    world.account.state = AccountRefused(Reason.ACCOUNT_UNAUTHORIZED, "key refused")
    world.hint()
    await world.settle()
    assert (world.reason(), world.stalled()) == ("FromTheFuture", "AccountUnauthorized: key refused")


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


async def test_a_cloud_that_changes_its_mind_again_and_again_is_told_of_so_often(world: World) -> None:
    await made(world)
    waiting = world.recorder._waiting
    for number in range(MOST_EVENTS + 5):
        await becomes(world, "running" if number % 2 else "failed")
    assert waiting.qsize() == MOST_EVENTS
    await world.wait(300)
    for state in ("failed", "running"):
        await becomes(world, state)
    assert waiting.qsize() == MOST_EVENTS + 1


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


async def test_an_outage_whose_next_probe_is_near_is_looked_at_and_written_ever_more_rarely(world: World) -> None:
    world.apply()
    await world.settle()
    held_back = Failure(HeldBack("get_vm", "the cloud answers get_vm with 500", retry_after=5))
    world.pods.random_failure = lambda call: held_back if call == "observe" else None
    world.hint()
    await world.wait(600, step=5)
    looks, writes = world.pods.count("observe"), len(world.server.writes)
    await world.wait(600, step=5)
    assert 10 <= world.pods.count("observe") - looks <= 14
    assert len(world.server.writes) - writes <= 14
    world.pods.random_failure = lambda _call: None
    await world.wait(80, step=5)
    assert (world.reason(), world.condition(ConditionType.STALLED)) == ("Running", None)
