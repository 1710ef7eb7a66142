"""Ids that webhooks named: a newborn's 404 is not believed, and others are looked up meanwhile."""

from relay_operator.engine.unclaimed_ids import UnclaimedIds
from tests.unit.flows.managed.world import Clock


def test_an_id_is_dropped_only_at_a_404_after_half_a_minute() -> None:
    clock = Clock()
    unclaimed = UnclaimedIds(clock=clock.monotonic)
    for cloud_id in ("pod-1", "pod-2"):
        unclaimed.add(cloud_id)
    unclaimed.not_found("pod-2")
    assert [*unclaimed.nameless()] == ["pod-1"]
    clock.seconds = 29
    unclaimed.not_found("pod-2")
    assert "pod-2" in unclaimed
    clock.seconds = 30
    assert [*unclaimed.nameless()] == ["pod-2", "pod-1"]
    unclaimed.not_found("pod-2")
    assert "pod-2" not in unclaimed


def test_what_was_read_meanwhile_begins_anew() -> None:
    clock = Clock()
    unclaimed = UnclaimedIds(clock=clock.monotonic)
    unclaimed.add("pod-1")
    unclaimed.not_found("pod-1")
    clock.seconds = 40
    unclaimed.learn("pod-1", "train")
    unclaimed.not_found("pod-1")
    assert unclaimed.named("train") == "pod-1"
    unclaimed.discard("pod-1")
    unclaimed.add("pod-1")
    assert [*unclaimed.nameless()] == ["pod-1"]
