"""Blue and green: what becomes of the old one, and of what leads to it, before the new one has its place."""

import itertools

import pytest

from relay_client import CloudUnavailable
from tests.unit.flows.managed.blue_green import becomes, ids, live, reached, status
from tests.unit.flows.managed.cloudpods import refused
from tests.unit.flows.managed.world import NAMESPACE, World


async def test_a_secret_that_is_removed_leads_to_the_old_one_again(both: World) -> None:
    leads_to = reached(both)
    both.server.remove("secrets", NAMESPACE, "reached")
    await both.wait(600)
    assert (reached(both), both.reason(), ids(both)) == (leads_to, "Deploying", ["pod-2", "pod-1"])


@pytest.mark.parametrize("gone", ["terminated", "forgotten"])
async def test_an_old_one_that_is_gone_is_neither_told_nor_paid(both: World, gone: str) -> None:
    if gone == "terminated":
        becomes(both, "pod-1", gone)
    else:
        both.pods.become("pod-1", "terminated")
        both.pods.hidden.add("pod-1")
    await both.wait(600)
    assert (ids(both), live(both)) == (["pod-2"], ["pod-2"])
    assert "pod-1" not in both.message()
    assert status(both).paying_per_hour_cents is None, "the new one is being deployed"
    becomes(both, "pod-2", "running")
    await both.wait(20)
    assert (both.reason(), reached(both)) == ("Running", status(both).endpoint_url)


async def test_an_old_one_that_the_cloud_does_not_find_for_a_moment_serves_on(both: World) -> None:
    both.pods.hidden.add("pod-1")
    await both.one_pass()
    both.pods.hidden.clear()
    await both.wait(600)
    assert ids(both) == ["pod-2", "pod-1"]


async def test_an_old_one_that_cannot_be_seen_serves_on(both: World) -> None:
    answers = itertools.cycle([None, refused(CloudUnavailable)])  # the new one is looked at first
    both.pods.random_failure = lambda call: next(answers) if call == "observe" else None
    await both.wait(60)
    assert ids(both) == ["pod-2", "pod-1"]


async def test_an_old_one_whose_id_the_cloud_gives_to_another_leads_nobody_there(both: World) -> None:
    leads_to = reached(both)
    both.pods.become("pod-1", "running", name="somebodys", endpoint_url="https://somebodys.example/")
    await both.wait(60)
    assert (ids(both), reached(both)) == (["pod-2", "pod-1"], leads_to)


async def test_an_old_one_that_is_gone_is_not_what_the_object_goes_back_to(both: World) -> None:
    becomes(both, "pod-1", "terminated")
    both.change(image="pytorch/pytorch")
    await both.wait(600)
    assert ids(both) == ["pod-3", "pod-2"]
    becomes(both, "pod-3", "running")
    await both.wait(300)
    assert (both.reason(), ids(both), live(both)) == ("Running", ["pod-3"], ["pod-3"])
