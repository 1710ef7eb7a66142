"""A Lease that somebody else than the candidates writes to, or deletes."""

import pytest

from relay_operator.leader.election import LeaseLostError
from tests.unit.leader.lease import TIMES, World


async def test_a_lease_that_somebody_labelled_is_kept(world: World) -> None:
    first = world.candidate("a")
    await first.acquire()
    world.label()
    await first.renew()
    await world.sleep(9)
    await first.renew()
    await world.sleep(9)
    assert first.leading()


async def test_a_lease_in_other_hands_is_lost_at_once(world: World) -> None:
    first = world.candidate("a")
    await first.acquire()
    world.store({"holderIdentity": "b", "leaseDurationSeconds": 15})
    with pytest.raises(LeaseLostError, match="b holds it"):
        await first.renew()
    assert not first.leading()


async def test_a_deleted_lease_is_lost_at_once(world: World) -> None:
    first = world.candidate("a")
    await first.acquire()
    world.lease = None
    with pytest.raises(LeaseLostError, match="deleted"):
        await first.renew()


async def test_a_standby_that_saw_the_holder_of_a_deleted_lease_waits_until_it_has_surely_ended(world: World) -> None:
    first, second = world.candidate("a"), world.candidate("b")
    await first.acquire()
    assert not await second.attempt()
    world.lease = None
    assert not await second.attempt()
    assert first.leading()
    await world.sleep(TIMES.duration)
    assert not first.leading()
    assert await second.attempt()
    assert second.former == "a"


async def test_a_standby_waits_until_the_holder_whom_somebody_removed_has_surely_ended(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    first, second = world.candidate("a"), world.candidate("b")
    await first.acquire()
    world.empty()
    assert not await second.attempt()
    assert "standing by: an unknown replica holds the Lease" in caplog.text
    assert first.leading()
    await world.sleep(TIMES.duration)
    assert not first.leading()
    assert await second.attempt()


async def test_a_leader_whom_somebody_removed_from_its_lease_ends(world: World) -> None:
    first = world.candidate("a")
    await first.acquire()
    world.empty()
    with pytest.raises(LeaseLostError, match="nobody holds it"):
        await first.renew()
    assert not first.leading()
    begun = world.now
    await world.candidate("a").acquire()
    assert TIMES.duration <= world.now - begun <= TIMES.duration + TIMES.retry


async def test_a_duration_that_somebody_shortened_does_not_let_a_second_replica_lead(world: World) -> None:
    first, second = world.candidate("a"), world.candidate("b")
    await first.acquire()
    world.store({"holderIdentity": "a", "leaseDurationSeconds": 1})
    assert not await second.attempt()
    await world.sleep(TIMES.retry)
    assert first.leading()
    assert not await second.attempt()


async def test_a_duration_that_somebody_wrote_holds_a_standby_for_a_day_at_most_and_is_told(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    standby = world.candidate("b")
    world.store({"holderIdentity": "gone", "leaseDurationSeconds": 2**31 - 1})
    for _ in range(3):
        assert not await standby.attempt()
    assert [record.getMessage() for record in caplog.records] == [
        "standing by: gone holds the Lease, which it has to renew every 86400 s"
    ]
    await world.sleep(86_400)
    assert await standby.attempt()


async def test_a_duration_that_somebody_lengthened_does_not_outlive_its_holder(world: World) -> None:
    first, second = world.candidate("a"), world.candidate("b")
    await first.acquire()
    assert world.lease is not None
    spec = world.lease["spec"]
    assert isinstance(spec, dict)
    world.store({**spec, "leaseDurationSeconds": 2**31 - 1})
    assert not await second.attempt()
    await first.renew()
    assert not await second.attempt()
    await world.sleep(TIMES.duration)
    assert await second.attempt(), "the holder is gone"


async def test_a_lease_that_others_write_to_all_the_time_is_taken_over(world: World) -> None:
    first, second = world.candidate("a"), world.candidate("b")
    await first.acquire()
    begun = world.now
    while not await second.attempt():
        assert world.now - begun <= TIMES.duration + TIMES.retry, "the leader is gone"
        await world.sleep(TIMES.retry)
        world.label()
    assert world.now - begun >= TIMES.duration
    assert not first.leading()


async def test_a_lease_that_others_write_to_all_the_time_is_renewed(world: World) -> None:
    first = world.candidate("a")
    await first.acquire()
    for _ in range(10):
        await world.sleep(TIMES.retry)
        world.label()
        await first.renew()
    assert first.leading()
