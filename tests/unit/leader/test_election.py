"""The election: whatever is lost, late or interleaved, two replicas never lead at once."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from relay_kube.kube import (
    AlreadyExists,
    Conflict,
    JsonObject,
    NotFound,
    Refused,
    ResourceType,
    Unavailable,
)
from relay_operator.leader.election import Election, Lease, LeaseLostError, LeaseTimes, claim, may_take

TIMES = LeaseTimes(duration=15, renew_deadline=10, retry=2)


@dataclass
class _World:
    """One Lease behind an API server's rules, and the time."""

    now: float = 1_000.0
    lease: JsonObject | None = None
    version: int = 0
    faults: list[str] = field(default_factory=list)
    """For the next calls: "" for none, "refused", a failure "before" or "after" the action, or a "slow" answer."""
    calls: int = 0

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)

    async def get(self, _kind: ResourceType, _namespace: str | None, _name: str) -> JsonObject:
        fault = self._fault()
        if self.lease is None:
            raise NotFound(404, "NotFound", "no lease")
        return self._answer(fault)

    async def create(self, _kind: ResourceType, _namespace: str | None, body: Mapping[str, JsonValue]) -> JsonObject:
        fault = self._fault()
        if self.lease is not None:
            raise AlreadyExists(409, "AlreadyExists", "lease")
        self._store(body["spec"])
        return self._answer(fault)

    async def patch(
        self, _kind: ResourceType, _namespace: str | None, _name: str, body: Mapping[str, JsonValue]
    ) -> JsonObject:
        fault = self._fault()
        if self.lease is None:
            raise NotFound(404, "NotFound", "no lease")
        metadata, spec, before = body["metadata"], body["spec"], self.lease["spec"]
        assert isinstance(metadata, dict)
        assert isinstance(spec, dict)
        assert isinstance(before, dict)
        if metadata["resourceVersion"] != str(self.version):
            raise Conflict(409, "Conflict", "lease")
        self._store({key: value for key, value in {**before, **spec}.items() if value is not None})
        return self._answer(fault)

    def label(self) -> None:
        """Somebody touches the Lease without taking it."""
        assert self.lease is not None
        self._store(self.lease["spec"])

    def empty(self) -> None:
        """Somebody removes the holder by hand."""
        if self.lease is not None and isinstance(spec := self.lease["spec"], dict):
            self._store({key: value for key, value in spec.items() if key != "holderIdentity"})

    def holder(self) -> JsonValue:
        spec = self.lease["spec"] if self.lease else None
        return spec.get("holderIdentity") if isinstance(spec, dict) else None

    def _store(self, spec: JsonValue) -> None:
        self.version += 1
        self.lease = {"metadata": {"resourceVersion": str(self.version)}, "spec": spec}

    def _fault(self) -> str:
        self.calls += 1
        fault = self.faults.pop(0) if self.faults else ""
        if fault == "refused":
            raise Refused(403, "Forbidden", "leases is forbidden")
        if fault == "before":
            raise Unavailable(0, "Unreachable", "not sent")
        return fault

    def _answer(self, fault: str) -> JsonObject:
        if fault == "after":
            raise Unavailable(0, "Unreachable", "the answer is lost")
        assert self.lease is not None
        answer = self.lease
        if fault == "slow":
            self.now += 9
        return answer


def _candidate(world: _World, identity: str) -> Election:
    return Election(world, "relay-system", "relay-operator", identity, TIMES, clock=world.clock, sleep=world.sleep)


@pytest.fixture
def world() -> _World:
    return _World()


async def test_the_first_candidate_leads_and_the_second_waits(world: _World) -> None:
    first, second = _candidate(world, "a"), _candidate(world, "b")
    assert await first.attempt()
    assert not await second.attempt()
    assert first.leading()
    assert not second.leading()


async def test_a_candidate_that_is_refused_says_so_until_it_is_not(world: _World) -> None:
    candidate = _candidate(world, "a")
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


async def test_a_standby_that_may_read_and_waits_is_not_refused(world: _World) -> None:
    first, second = _candidate(world, "a"), _candidate(world, "b")
    await first.acquire()
    world.faults = ["refused"]
    assert not await second.attempt()
    assert not await second.attempt()
    assert second.unfit() is None


async def test_a_refusal_is_logged_as_an_error_once_a_minute(world: _World, caplog: pytest.LogCaptureFixture) -> None:
    candidate = _candidate(world, "a")
    for _ in range(61):
        world.faults = ["refused"]
        assert not await candidate.attempt()
        await world.sleep(2)
    assert [record.levelname for record in caplog.records] == ["ERROR"] * 3


async def test_a_renewed_lease_is_never_taken(world: _World) -> None:
    first, second = _candidate(world, "a"), _candidate(world, "b")
    await first.acquire()
    for _ in range(20):
        await world.sleep(2)
        await first.renew()
        assert not await second.attempt()
    assert first.leading()


async def test_a_standby_takes_over_once_the_lease_stood_still_for_its_duration(world: _World) -> None:
    first, second = _candidate(world, "a"), _candidate(world, "b")
    await first.acquire()
    assert not await second.attempt()
    await world.sleep(14.9)
    assert not await second.attempt()
    await world.sleep(0.2)
    assert await second.attempt()
    assert not first.leading()


async def test_a_candidate_that_just_started_waits_the_whole_duration_whatever_the_times_in_the_lease(
    world: _World,
) -> None:
    world.lease = {
        "metadata": {"resourceVersion": "7"},
        "spec": {"holderIdentity": "gone", "leaseDurationSeconds": 15, "renewTime": "1970-01-01T00:00:00.000000Z"},
    }
    world.version = 7
    begun = world.now
    await _candidate(world, "a").acquire()
    assert 15 <= world.now - begun <= 15 + TIMES.retry


async def test_the_holders_own_longer_duration_is_respected(world: _World) -> None:
    world.lease = {"metadata": {"resourceVersion": "7"}, "spec": {"holderIdentity": "x", "leaseDurationSeconds": 60}}
    world.version = 7
    begun = world.now
    await _candidate(world, "a").acquire()
    assert world.now - begun >= 60


async def test_a_released_lease_is_taken_at_the_next_turn(world: _World) -> None:
    first, second = _candidate(world, "a"), _candidate(world, "b")
    await first.acquire()
    assert not await second.attempt()
    await first.release()
    assert not first.leading()
    assert await second.attempt()


async def test_releasing_leaves_the_lease_of_another_alone(world: _World) -> None:
    first, second = _candidate(world, "a"), _candidate(world, "b")
    await first.acquire()
    await second.attempt()
    await world.sleep(16)
    await second.acquire()
    await first.release()
    assert world.holder() == "b"
    assert second.leading()


async def test_a_lease_taken_with_a_lost_answer_is_released(world: _World) -> None:
    first, second = _candidate(world, "a"), _candidate(world, "b")
    world.faults = ["", "after"]
    assert not await first.attempt()
    assert world.holder() == "a"
    await first.release()
    assert await second.attempt()


async def test_a_replica_that_only_stood_by_has_nothing_to_release(world: _World) -> None:
    first, second = _candidate(world, "a"), _candidate(world, "b")
    await first.acquire()
    assert not await second.attempt()
    calls = world.calls
    await second.release()
    assert world.calls == calls


async def test_a_release_that_cannot_be_sent_does_not_keep_the_process_from_ending(world: _World) -> None:
    first = _candidate(world, "a")
    await first.acquire()
    world.faults = ["before"]
    await first.release()
    assert not first.leading()


async def test_a_leader_that_cannot_renew_ends_before_a_standby_takes_over(world: _World) -> None:
    first, second = _candidate(world, "a"), _candidate(world, "b")
    await first.acquire()
    begun = world.now
    await second.attempt()
    world.faults = ["before"] * 100
    with pytest.raises(LeaseLostError, match="in time"):
        await first.hold()
    assert world.now - begun <= TIMES.renew_deadline
    assert not first.leading()


async def test_a_leader_that_was_frozen_does_not_lead_when_it_wakes(world: _World) -> None:
    first = _candidate(world, "a")
    await first.acquire()
    world.now += TIMES.renew_deadline
    assert not first.leading()
    with pytest.raises(LeaseLostError):
        await first.renew()


async def test_the_time_an_answer_took_is_taken_off_the_lead(world: _World) -> None:
    first = _candidate(world, "a")
    world.faults = ["", "slow"]
    begun = world.now
    assert await first.attempt()
    world.now = begun + 9.9
    assert first.leading()
    world.faults = ["slow"]
    await first.renew()
    world.now = begun + 9.9 + TIMES.renew_deadline
    assert not first.leading()


async def test_a_renewal_whose_answer_was_lost_is_found_and_goes_on(world: _World) -> None:
    first = _candidate(world, "a")
    await first.acquire()
    for fault in ("after", "", "", ""):
        world.faults = [fault]
        await world.sleep(2)
        await first.renew()
    assert first.leading()


async def test_a_lease_that_somebody_labelled_is_kept(world: _World) -> None:
    first = _candidate(world, "a")
    await first.acquire()
    world.label()
    await first.renew()
    await world.sleep(9)
    await first.renew()
    await world.sleep(9)
    assert first.leading()


async def test_a_lease_in_other_hands_is_lost_at_once(world: _World) -> None:
    first = _candidate(world, "a")
    await first.acquire()
    world._store({"holderIdentity": "b", "leaseDurationSeconds": 15})
    with pytest.raises(LeaseLostError, match="b holds it"):
        await first.renew()
    assert not first.leading()


async def test_a_deleted_lease_is_lost_at_once(world: _World) -> None:
    first = _candidate(world, "a")
    await first.acquire()
    world.lease = None
    with pytest.raises(LeaseLostError, match="deleted"):
        await first.renew()


async def test_a_standby_that_saw_the_holder_of_a_deleted_lease_waits_until_it_has_surely_ended(world: _World) -> None:
    first, second = _candidate(world, "a"), _candidate(world, "b")
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
    world: _World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    first, second = _candidate(world, "a"), _candidate(world, "b")
    await first.acquire()
    world.empty()
    assert not await second.attempt()
    assert "standing by: an unknown replica holds the Lease" in caplog.text
    assert first.leading()
    await world.sleep(TIMES.duration)
    assert not first.leading()
    assert await second.attempt()


async def test_a_leader_whom_somebody_removed_from_its_lease_ends(world: _World) -> None:
    first = _candidate(world, "a")
    await first.acquire()
    world.empty()
    with pytest.raises(LeaseLostError, match="nobody holds it"):
        await first.renew()
    assert not first.leading()
    begun = world.now
    await _candidate(world, "a").acquire()
    assert TIMES.duration <= world.now - begun <= TIMES.duration + TIMES.retry


async def test_a_duration_that_somebody_shortened_does_not_let_a_second_replica_lead(world: _World) -> None:
    first, second = _candidate(world, "a"), _candidate(world, "b")
    await first.acquire()
    world._store({"holderIdentity": "a", "leaseDurationSeconds": 1})
    assert not await second.attempt()
    await world.sleep(TIMES.retry)
    assert first.leading()
    assert not await second.attempt()


async def test_a_duration_that_somebody_wrote_holds_a_standby_for_a_day_at_most_and_is_told(
    world: _World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    standby = _candidate(world, "b")
    world._store({"holderIdentity": "gone", "leaseDurationSeconds": 2**31 - 1})
    for _ in range(3):
        assert not await standby.attempt()
    assert [record.getMessage() for record in caplog.records] == [
        "standing by: gone holds the Lease, which it has to renew every 86400 s"
    ]
    await world.sleep(86_400)
    assert await standby.attempt()


async def test_a_duration_that_somebody_lengthened_does_not_outlive_its_holder(world: _World) -> None:
    first, second = _candidate(world, "a"), _candidate(world, "b")
    await first.acquire()
    assert world.lease is not None
    spec = world.lease["spec"]
    assert isinstance(spec, dict)
    world._store({**spec, "leaseDurationSeconds": 2**31 - 1})
    assert not await second.attempt()
    await first.renew()
    assert not await second.attempt()
    await world.sleep(TIMES.duration)
    assert await second.attempt(), "the holder is gone"


async def test_a_lease_that_others_write_to_all_the_time_is_taken_over(world: _World) -> None:
    first, second = _candidate(world, "a"), _candidate(world, "b")
    await first.acquire()
    begun = world.now
    while not await second.attempt():
        assert world.now - begun <= TIMES.duration + TIMES.retry, "the leader is gone"
        await world.sleep(TIMES.retry)
        world.label()
    assert world.now - begun >= TIMES.duration
    assert not first.leading()


async def test_a_lease_that_others_write_to_all_the_time_is_renewed(world: _World) -> None:
    first = _candidate(world, "a")
    await first.acquire()
    for _ in range(10):
        await world.sleep(TIMES.retry)
        world.label()
        await first.renew()
    assert first.leading()


async def test_a_lease_taken_with_a_lost_answer_is_led_at_the_next_turn(world: _World) -> None:
    first = _candidate(world, "a")
    world.faults = ["", "after"]
    assert not await first.attempt()
    assert not first.leading()
    assert await first.attempt()


async def test_the_next_container_of_the_same_pod_takes_its_lease_over_at_once(world: _World) -> None:
    await _candidate(world, "pod-1").acquire()
    assert await _candidate(world, "pod-1").attempt()


async def test_the_loops_tell_that_they_are_alive(world: _World) -> None:
    turns: list[float] = []
    first = _candidate(world, "a")
    first.on_turn = lambda: turns.append(world.now)
    await first.acquire()
    await first.renew()
    assert len(turns) == 2


def test_a_duration_is_never_written_shorter_than_it_is() -> None:
    assert claim(None, "a", LeaseTimes(2.4, 1.2, 0.5), "now")["leaseDurationSeconds"] == 3


def test_the_shortest_duration_is_not_that_of_a_released_lease() -> None:
    body: JsonObject = {"spec": claim(None, "", LeaseTimes(1, 0.8, 0.5), "now")}
    assert not Lease.read(body, least_duration=1).released


def test_transitions_count_the_changes_of_the_holder() -> None:
    held = Lease(version="1", holder="a", duration=15, transitions=4)
    assert claim(held, "b", TIMES, "now")["leaseTransitions"] == 5
    assert "leaseTransitions" not in claim(held, "a", TIMES, "now")


@pytest.mark.parametrize(
    ("holder", "unchanged", "taken"),
    [("", 14.9, False), ("", 15, True), ("me", 0, True), ("other", 14.9, False), ("other", 15, True)],
)
def test_a_lease_is_taken_when_ours_or_expired(holder: str, unchanged: float, taken: bool) -> None:
    assert may_take(Lease("1", holder, 15, 0), "me", unchanged) is taken


class _Replica:
    """A process: elected, then renewing; after losing it starts again under another identity."""

    def __init__(self, world: _World, name: str) -> None:
        self.world, self.name, self.starts = world, name, 0
        self.election = self._started()
        self.elected = False

    def _started(self) -> Election:
        self.starts += 1
        return _candidate(self.world, f"{self.name}-{self.starts}")

    async def turn(self) -> None:
        if not self.elected:
            self.elected = await self.election.attempt()
            return
        try:
            await self.election.renew()
        except LeaseLostError:
            self.elected, self.election = False, self._started()


_STEPS = st.lists(
    st.tuples(
        st.integers(0, 3),  # whose turn; the last is somebody who empties the Lease
        st.sampled_from([0.0, 0.5, 2.0, 2.0, 5.0, 9.9, 10.0, 15.0, 40.0]),  # how much later
        st.lists(st.sampled_from(["", "", "before", "after", "slow"]), max_size=2),
    ),
    max_size=60,
)


@given(_STEPS)
def test_two_replicas_never_lead_at_once(steps: list[tuple[int, float, list[str]]]) -> None:
    async def run() -> None:
        world = _World()
        replicas = [_Replica(world, name) for name in "abc"]
        for index, later, faults in steps:
            world.now += later
            world.faults = list(faults)
            if index == len(replicas):
                world.empty()
            else:
                await replicas[index].turn()
            assert sum(replica.election.leading() for replica in replicas) <= 1

    asyncio.run(run())
