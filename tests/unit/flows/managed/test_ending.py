"""Deleting an object: what happens in the cloud, what it waits for, and when it is let go."""

import pytest

from relay_client import Conflict, Forbidden, NotFound, RateLimited
from relay_operator.api.conditions import ConditionType, Reason
from relay_operator.api.meta import FINALIZER, ObjectKey
from relay_operator.engine.account import AccountRefused, AccountWaiting
from relay_operator.engine.queue import Priority
from tests.unit.engine.apiserver import Call, metadata_fault
from tests.unit.flows.managed.cloudpods import lost, refused, unauthorized
from tests.unit.flows.managed.world import NAMESPACE, World


async def made(world: World, policy: str = "Delete") -> None:
    world.apply(deletionPolicy=policy)
    await world.settle()


async def test_deleting_terminates_then_looks_then_lets_go(world: World) -> None:
    await made(world)
    world.delete()
    await world.settle()
    assert (world.pods.count("delete"), world.exists(), world.reason()) == (1, True, "Deleting")
    await world.wait(10)
    assert (world.pods.live, world.exists()) == ([], False)
    assert world.pods.count("delete") == 1


async def test_what_was_let_go_is_forgotten_though_no_event_tells(world: World) -> None:
    """What it used, an account for example, waits until nothing uses it any more."""
    await made(world)
    held = world.apply("held")
    await world.settle()
    world.server.edit("gpupods", NAMESPACE, "held", {"metadata": {"finalizers": [FINALIZER, "another.dev/held"]}})
    for name in ("train", "held"):
        world.delete(name)
    await world.settle()
    world.watching = False
    await world.wait(10)
    assert (world.exists(), world.exists("held")) == (False, True)
    assert list(world.cache.keys()) == [held]
    world.delete("held", force=True)
    await world.informer.relist(world.kube, "GpuPod", world.flow.type, ())
    assert (list(world.cache.keys()), world.informer.vanished.leftovers.counts()) == ([], {})


POLICIES = {
    "Delete": ("terminated", ["delete"]),
    "Stop": ("stopped", ["stop"]),
    "Orphan": ("running", []),
}


@pytest.mark.parametrize(("policy", "state", "sent"), [(name, *row) for name, row in POLICIES.items()], ids=POLICIES)
async def test_the_deletion_policy_says_what_becomes_of_the_resource(
    world: World, policy: str, state: str, sent: list[str]
) -> None:
    await made(world, policy)
    world.delete()
    await world.wait(20)
    assert not world.exists()
    assert world.pods.records["pod-1"].status == state
    assert [call for call in world.pods.calls if call in ("delete", "stop")] == sent


async def test_an_object_that_never_sent_a_create_goes_at_once(world: World) -> None:
    world.account.state = AccountWaiting(Reason.ACCOUNT_MISSING, "there is no account")
    await made(world)
    world.server.edit("gpupods", NAMESPACE, "train", {"metadata": {"finalizers": [FINALIZER]}})
    world.delete()
    await world.settle()
    assert (world.exists(), world.pods.calls) == (False, [])


async def test_an_object_without_our_finalizer_is_left_to_others(world: World) -> None:
    world.apply()
    world.server.edit("gpupods", NAMESPACE, "train", {"metadata": {"finalizers": ["another/finalizer"]}})
    world.delete()
    await world.wait(100)
    assert (world.pods.calls, world.server.writes) == ([], [])


async def test_other_finalizers_stay(world: World) -> None:
    await made(world)
    world.server.edit("gpupods", NAMESPACE, "train", {"metadata": {"finalizers": ["another/finalizer", FINALIZER]}})
    world.delete()
    await world.wait(10)
    assert world.obj().metadata.finalizers == ["another/finalizer"]


@pytest.mark.parametrize(
    "state",
    [AccountWaiting(Reason.SECRET_MISSING, "no Secret"), AccountRefused(Reason.ACCOUNT_UNAUTHORIZED, "key refused")],
    ids=["waiting", "refused"],
)
async def test_a_deletion_waits_for_its_account_and_says_so(
    world: World, state: AccountWaiting | AccountRefused
) -> None:
    await made(world)
    ready, world.account.state = world.account.state, state
    world.delete()
    await world.settle()
    stalled = world.condition(ConditionType.STALLED)
    assert stalled is not None
    assert (stalled.reason, "the deletion waits for it" in stalled.message) == (state.reason, True)
    assert (world.exists(), world.pods.count("delete")) == (True, 0)
    world.account.state = ready
    await world.wait(400)
    assert (world.exists(), world.pods.live) == (False, [])


async def test_abandoning_lets_go_without_touching_the_cloud(world: World) -> None:
    await made(world)
    world.account.state = AccountRefused(Reason.ACCOUNT_UNAUTHORIZED, "key refused")
    world.delete()
    await world.settle()
    calls = list(world.pods.calls)
    world.annotate(abandon="true")
    await world.settle()
    assert (world.exists(), world.pods.calls, len(world.pods.live)) == (False, calls, 1)


async def test_paused_keeps_what_is_being_deleted_and_says_so(world: World) -> None:
    await made(world)
    world.annotate(paused="true")
    world.delete()
    await world.wait(1000)
    paused = world.condition(ConditionType.PAUSED)
    assert paused is not None
    assert (world.exists(), len(world.pods.live), world.reason()) == (True, 1, "Running")
    world.annotate(paused=None)
    await world.wait(10)
    assert (world.exists(), world.pods.live) == (False, [])


async def test_letting_go_is_logged_once_however_late_the_watch_tells_of_it(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await made(world)
    caplog.set_level("INFO")
    world.delete()
    await world.settle()
    world.watching = False
    await world.wait(10)
    assert not world.exists()
    for _ in range(3):
        world.queue.add(ObjectKey("GpuPod", NAMESPACE, "train"), Priority.EVENT)
        await world.settle()
    assert [one.outcome for one in world.passes].count("Release") == 1
    assert caplog.messages.count("Release") == 1


async def test_two_404s_some_time_apart_mean_gone(world: World) -> None:
    await made(world)
    await world.wait(60)
    del world.pods.records["pod-1"]
    world.delete()
    await world.settle()
    assert (world.exists(), world.reason()) == (True, "Deleting")
    await world.wait(10)
    assert not world.exists()


async def test_one_404_that_is_not_repeated_means_nothing(world: World) -> None:
    await made(world)
    await world.wait(60)
    world.pods.hidden.add("pod-1")
    world.hint()
    await world.settle()
    assert world.reason() == "Searching"
    world.pods.hidden.clear()
    world.hint()
    await world.settle()
    assert world.reason() == "Running"
    world.pods.hidden.add("pod-1")
    world.clock.seconds += 20
    world.hint()
    await world.settle()
    assert world.reason() == "Searching"


async def _delete_unseen(world: World) -> None:
    """Delete what the cloud does not find yet; nothing may follow from that until the create is old enough."""
    world.pods.hidden.add("pod-1")
    world.delete()
    await world.wait(28)
    assert world.exists()


async def test_404s_right_after_the_create_mean_nothing(world: World) -> None:
    await made(world)
    await _delete_unseen(world)
    world.pods.hidden.clear()
    await world.wait(60)
    assert (world.exists(), world.pods.live) == (False, [])


@pytest.mark.parametrize("ahead", [3600.0, -86400.0])
async def test_404s_right_after_the_create_mean_nothing_whatever_the_wall_clock_says(
    world: World, ahead: float
) -> None:
    await made(world)
    world.clock.ahead = ahead
    await _delete_unseen(world)
    world.pods.records.clear()
    await world.wait(10)
    assert not world.exists(), "a clock that was put back delays nothing"


async def test_404s_right_after_a_change_of_the_leader_mean_nothing_whatever_its_wall_clock_says(world: World) -> None:
    await made(world)
    world.pods.hidden.add("pod-1")
    world.clock.ahead = 60
    world.change(recovery={"onTerminated": "Recreate"})
    await world.restart()
    await world.wait(25)
    world.pods.hidden.clear()
    await world.wait(60)
    assert (len(world.pods.created), world.status().id) == (1, "pod-1")


async def test_a_cloud_that_cannot_be_asked_is_told_to_end_what_is_known_and_never_read_as_gone(world: World) -> None:
    await made(world)
    world.pods.fail("observe", *[lost(acted=False)] * 200)
    world.delete()
    await world.wait(600)
    assert (world.exists(), world.pods.live, world.pods.count("delete")) == (True, [], 1)
    world.pods.failures.clear()
    await world.wait(400)
    assert (world.exists(), world.pods.count("delete")) == (False, 1)


@pytest.mark.parametrize("found", [True, False])
async def test_what_the_cloud_showed_last_as_anothers_is_not_ended_while_it_is_not_shown(
    world: World, *, found: bool
) -> None:
    await made(world)
    world.pods.become("pod-1", "running", name="theirs")
    world.delete()
    await world.wait(5)
    assert "IdentityMismatch" in world.stalled()
    if found:
        world.pods.random_failure = lambda call: lost(acted=False) if call == "observe" else None
    else:
        world.pods.hidden.add("pod-1")
    await world.wait(600)
    assert (world.exists(), world.pods.count("delete")) == (found, 0)


async def test_what_is_deleted_long_after_reads_began_to_fail_is_ended_all_the_same(world: World) -> None:
    await made(world)
    world.pods.random_failure = lambda call: lost(acted=False) if call == "observe" else None
    await world.wait(1800)
    world.delete()
    await world.wait(60)
    assert (world.exists(), world.pods.live, world.pods.count("delete")) == (True, [], 1)


async def test_a_cloud_that_can_neither_be_asked_nor_told_is_told_once_until_it_answers(world: World) -> None:
    await made(world)
    world.pods.random_failure = lambda call: lost(acted=False) if call in {"observe", "delete"} else None
    world.delete()
    await world.wait(60)
    stalled = world.condition(ConditionType.STALLED)
    assert stalled is not None
    assert (stalled.reason, world.pods.count("delete")) == (Reason.CLOUD_UNAVAILABLE, 1)
    world.pods.random_failure = lambda _call: None
    await world.wait(120)
    assert (world.exists(), world.pods.live) == (False, [])


async def test_a_termination_that_the_cloud_refuses_while_reads_fail_is_sent_again(world: World) -> None:
    await made(world)
    world.pods.random_failure = lambda call: lost(acted=False) if call == "observe" else None
    world.pods.fail("delete", refused(RateLimited), refused(Conflict))
    world.delete()
    await world.wait(60)
    assert (world.exists(), world.pods.live, world.pods.count("delete")) == (True, [], 3)


async def test_a_termination_that_was_not_sent_while_reads_fail_is_sent_by_the_next_decision(world: World) -> None:
    await made(world)
    world.pods.random_failure = lambda call: lost(acted=False) if call == "observe" else None
    world.pods.once_before_change(lambda: world.change(image="another"))
    world.delete()
    await world.wait(60)
    assert (world.exists(), world.pods.live, world.pods.count("delete")) == (True, [], 1)


async def test_what_was_told_in_vain_in_one_outage_is_told_again_in_the_next(world: World) -> None:
    await made(world)
    silent = {"observe", "delete"}
    world.pods.random_failure = lambda call: lost(acted=False) if call in silent else None
    world.delete()
    await world.wait(60)
    assert world.pods.count("delete") == 1
    silent.remove("observe")
    while world.pods.count("delete") == 1:
        await world.wait(1)
    world.pods.random_failure = lambda call: lost(acted=False) if call == "observe" else None
    await world.wait(300)
    assert (world.exists(), world.pods.live) == (True, [])


async def test_what_this_process_never_saw_is_not_ended_while_reads_fail(world: World) -> None:
    """Status alone does not prove whose a resource is."""
    await made(world)
    world.assemble()
    world.pods.random_failure = lambda call: lost(acted=False) if call == "observe" else None
    world.delete()
    await world.wait(200)
    assert (len(world.pods.live), world.pods.count("delete")) == (1, 0)


async def test_a_refused_key_is_told_to_the_account_and_never_read_as_gone(world: World) -> None:
    await made(world)
    world.pods.fail("observe", unauthorized())
    world.delete()
    await world.settle()
    assert world.account.refusals == [world.account.state]
    assert (world.exists(), world.pods.count("delete")) == (True, 0)


@pytest.mark.parametrize("call", ["delete", "observe"])
async def test_a_deletion_that_the_cloud_holds_up_says_that_it_waits_for_it(world: World, call: str) -> None:
    world.apply()
    await world.settle()
    world.pods.fail(call, *[refused(Forbidden)] * 40)
    world.delete()
    await world.wait(60)
    messages = [each.message for each in world.status().conditions or ()]
    assert any("; the deletion waits for it (the annotation abandon lets go" in each for each in messages)
    assert len(world.pods.live) == 1


async def test_a_refused_termination_is_sent_again_and_not_waited_for(world: World) -> None:
    await made(world)
    world.pods.fail("delete", refused(Conflict), unauthorized())
    world.delete()
    await world.settle()
    assert world.reason() == "Conflict"
    await world.wait(20)
    assert (world.exists(), world.pods.live, world.pods.count("delete")) == (False, [], 3)
    assert world.account.refusals == [world.account.state]


async def test_a_termination_of_what_is_gone_is_no_error(world: World) -> None:
    await made(world)
    world.pods.fail("delete", refused(NotFound))
    world.delete()
    await world.settle()
    assert world.reason() == "Deleting"


async def test_a_termination_that_comes_to_nothing_is_sent_again(world: World) -> None:
    await made(world)
    world.pods.on_call = lambda call: world.pods.become("pod-1", "running") if call == "delete" else None
    world.delete()
    await world.wait(25)
    assert (world.pods.count("delete"), world.reason()) == (1, "Deleting")
    await world.wait(40)
    assert world.pods.count("delete") == 2


async def test_deleting_with_an_open_intent_searches_first(world: World) -> None:
    world.pods.fail("create", lost(acted=True))
    world.apply()
    await world.one_pass()
    world.delete()
    await world.wait(30)
    assert (world.exists(), world.pods.live) == (False, [])


async def test_deleting_with_an_open_intent_that_came_to_nothing_lets_go_in_the_end(world: World) -> None:
    world.pods.fail("create", lost(acted=False))
    world.apply()
    await world.settle()
    world.delete()
    await world.settle()
    assert world.exists()
    await world.wait(700)
    assert (world.exists(), world.pods.created) == (False, [])


async def test_deleting_stalls_where_nobody_can_tell_what_became_of_the_create(world: World) -> None:
    world.pods.listable = False
    world.pods.fail("create", lost(acted=True))
    world.apply()
    await world.settle()
    world.delete()
    await world.wait(400)
    stalled = world.condition(ConditionType.STALLED)
    assert stalled is not None
    assert "adopt-id" in stalled.message
    world.annotate(adopt_id="pod-1")
    await world.wait(30)
    assert (world.exists(), world.pods.live) == (False, [])


async def test_letting_go_gives_way_to_whoever_wrote_first(world: World) -> None:
    await made(world)
    world.delete()
    await world.settle()
    world.server.faults.append(metadata_fault(409))
    world.hint()
    await world.wait(40)
    assert not world.exists()


async def test_an_object_that_went_just_before_it_was_let_go_is_no_error(world: World) -> None:
    await made(world)
    world.delete()
    await world.settle()

    def before(call: Call) -> None:
        if call.method == "PATCH" and not call.status_write:
            world.server.before = lambda _: None
            world.delete(force=True)

    world.server.before = before
    world.hint()
    await world.wait(40)
    assert not world.exists()
    assert world.passes[-1].outcome == "Release"


async def test_what_was_remembered_of_an_object_goes_with_it(world: World) -> None:
    await made(world)
    world.delete()
    await world.wait(30)
    await world.settle()
    assert (len(world.cache), world.reconciler.memories._by_key) == (0, {})


async def test_what_is_to_be_stopped_and_does_not_run_so_far_says_what_it_waits_for(world: World) -> None:
    world.pods.born = "deploying"
    await made(world, "Stop")
    world.delete()
    await world.wait(5)
    assert world.message().startswith("it is stopped as soon as it runs; ")
    world.pods.become("pod-1", "running")
    await world.wait(60)
    assert (world.exists(), world.pods.count("stop"), world.pods.count("delete")) == (False, 1, 0)
