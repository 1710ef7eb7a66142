"""The election: who leads, for how long, and whatever is lost or late."""

import pytest

from relay_operator.leader.election import LeaseLostError
from tests.unit.leader.lease import TIMES, World


async def test_the_first_candidate_leads_and_the_second_waits(world: World) -> None:
    first, second = world.candidate("a"), world.candidate("b")
    assert await first.attempt()
    assert not await second.attempt()
    assert first.leading()
    assert not second.leading()


async def test_a_candidate_that_is_refused_says_so_until_it_is_not(world: World) -> None:
    candidate = world.candidate("a")
    assert candidate.unfit() == "the API server has not answered for the Lease yet"
    world.faults = ["refused", "before", "", ""]
    assert not await candidate.attempt()
    refused = candidate.unfit()
    assert refused is not None
    assert "relay-system/relay-operator is refused" in refused
    assert "leases is forbidden" in refused
    assert not await candidate.attempt()
    assert candidate.unfit() == refused, "silence is no permission"
    assert await candidate.attempt()
    assert candidate.unfit() is None


async def test_a_standby_that_may_read_and_waits_is_not_refused(world: World) -> None:
    first, second = world.candidate("a"), world.candidate("b")
    await first.acquire()
    world.faults = ["refused"]
    assert not await second.attempt()
    assert not await second.attempt()
    assert second.unfit() is None


async def test_a_refusal_is_logged_as_an_error_once_a_minute(world: World, caplog: pytest.LogCaptureFixture) -> None:
    candidate = world.candidate("a")
    for _ in range(61):
        world.faults = ["refused"]
        assert not await candidate.attempt()
        await world.sleep(2)
    assert [record.levelname for record in caplog.records] == ["ERROR"] * 3


async def test_a_renewed_lease_is_never_taken(world: World) -> None:
    first, second = world.candidate("a"), world.candidate("b")
    await first.acquire()
    for _ in range(20):
        await world.sleep(2)
        await first.renew()
        assert not await second.attempt()
    assert first.leading()


async def test_a_standby_takes_over_once_the_lease_stood_still_for_its_duration(world: World) -> None:
    first, second = world.candidate("a"), world.candidate("b")
    await first.acquire()
    assert not await second.attempt()
    await world.sleep(14.9)
    assert not await second.attempt()
    await world.sleep(0.2)
    assert await second.attempt()
    assert not first.leading()


async def test_a_candidate_that_just_started_waits_the_whole_duration_whatever_the_times_in_the_lease(
    world: World,
) -> None:
    world.lease = {
        "metadata": {"resourceVersion": "7"},
        "spec": {"holderIdentity": "gone", "leaseDurationSeconds": 15, "renewTime": "1970-01-01T00:00:00.000000Z"},
    }
    world.version = 7
    begun = world.now
    await world.candidate("a").acquire()
    assert 15 <= world.now - begun <= 15 + TIMES.retry


async def test_the_holders_own_longer_duration_is_respected(world: World) -> None:
    world.lease = {"metadata": {"resourceVersion": "7"}, "spec": {"holderIdentity": "x", "leaseDurationSeconds": 60}}
    world.version = 7
    begun = world.now
    await world.candidate("a").acquire()
    assert world.now - begun >= 60


async def test_a_released_lease_is_taken_at_the_next_turn(world: World) -> None:
    first, second = world.candidate("a"), world.candidate("b")
    await first.acquire()
    assert not await second.attempt()
    await first.release()
    assert not first.leading()
    assert await second.attempt()


async def test_releasing_leaves_the_lease_of_another_alone(world: World) -> None:
    first, second = world.candidate("a"), world.candidate("b")
    await first.acquire()
    await second.attempt()
    await world.sleep(16)
    await second.acquire()
    await first.release()
    assert world.holder() == "b"
    assert second.leading()


async def test_a_lease_taken_with_a_lost_answer_is_released(world: World) -> None:
    first, second = world.candidate("a"), world.candidate("b")
    world.faults = ["", "after"]
    assert not await first.attempt()
    assert world.holder() == "a"
    await first.release()
    assert await second.attempt()


async def test_a_replica_that_only_stood_by_has_nothing_to_release(world: World) -> None:
    first, second = world.candidate("a"), world.candidate("b")
    await first.acquire()
    assert not await second.attempt()
    calls = world.calls
    await second.release()
    assert world.calls == calls


async def test_a_release_that_cannot_be_sent_does_not_keep_the_process_from_ending(world: World) -> None:
    first = world.candidate("a")
    await first.acquire()
    world.faults = ["before"]
    await first.release()
    assert not first.leading()


async def test_a_leader_that_cannot_renew_ends_before_a_standby_takes_over(world: World) -> None:
    first, second = world.candidate("a"), world.candidate("b")
    await first.acquire()
    begun = world.now
    await second.attempt()
    world.faults = ["before"] * 100
    with pytest.raises(LeaseLostError, match="in time"):
        await first.hold()
    assert world.now - begun <= TIMES.renew_deadline
    assert not first.leading()


async def test_a_leader_that_was_frozen_does_not_lead_when_it_wakes(world: World) -> None:
    first = world.candidate("a")
    await first.acquire()
    world.now += TIMES.renew_deadline
    assert not first.leading()
    with pytest.raises(LeaseLostError):
        await first.renew()


async def test_the_time_an_answer_took_is_taken_off_the_lead(world: World) -> None:
    first = world.candidate("a")
    world.faults = ["", "slow"]
    begun = world.now
    assert await first.attempt()
    world.now = begun + 9.9
    assert first.leading()
    world.faults = ["slow"]
    await first.renew()
    world.now = begun + 9.9 + TIMES.renew_deadline
    assert not first.leading()


async def test_a_renewal_whose_answer_was_lost_is_found_and_goes_on(world: World) -> None:
    first = world.candidate("a")
    await first.acquire()
    for fault in ("after", "", "", ""):
        world.faults = [fault]
        await world.sleep(2)
        await first.renew()
    assert first.leading()


async def test_a_lease_taken_with_a_lost_answer_is_led_at_the_next_turn(world: World) -> None:
    first = world.candidate("a")
    world.faults = ["", "after"]
    assert not await first.attempt()
    assert not first.leading()
    assert await first.attempt()


async def test_the_next_container_of_the_same_pod_takes_its_lease_over_at_once(world: World) -> None:
    await world.candidate("pod-1").acquire()
    assert await world.candidate("pod-1").attempt()


async def test_the_loops_tell_that_they_are_alive(world: World) -> None:
    turns: list[float] = []
    first = world.candidate("a")
    first.on_turn = lambda: turns.append(world.now)
    await first.acquire()
    await first.renew()
    assert len(turns) == 2
