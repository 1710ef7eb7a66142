"""`createRecovery: RetryByName`: the same request again, and what is known of what it led to."""

from dataclasses import replace

import pytest

from relay_client import BadRequest, CapacityExhausted, CloudError, Conflict, PaymentRequired, RateLimited
from relay_kube.kube import SECRETS
from relay_operator.api.conditions import ConditionType
from relay_operator.engine.intent import digests
from tests.unit.flows.managed.cloudpods import lost, refused
from tests.unit.flows.managed.world import NAMESPACE, World


async def lost_with_its_secret(world: World, *, acted: bool) -> None:
    """A create with a Secret's environment, whose answer is lost, in a cloud that lists nothing."""
    world.pods.listable = False
    await world.kube.create(SECRETS, NAMESPACE, {"metadata": {"name": "keys"}, "data": {"TOKEN": "czNjcjN0"}})
    world.pods.fail("create", lost(acted=acted))
    world.apply(envFrom=[{"secretRef": {"name": "keys"}}])


async def test_retry_by_name_sends_the_same_request_again(world: World) -> None:
    world.account.state = replace(world.account.ready, resend_unknown=True)
    world.pods.listable = False
    await world.kube.create(SECRETS, NAMESPACE, {"metadata": {"name": "keys"}, "data": {"TOKEN": "czNjcjN0"}})
    world.pods.fail("create", lost(acted=False))
    world.apply(env=[{"name": "A", "value": "b"}], envFrom=[{"secretRef": {"name": "keys"}}])
    await world.wait(200)
    (first, asked), (again, resent) = world.pods.sent
    assert (again, resent) == (first, asked)
    assert resent.env == {"A": "b", "TOKEN": "s3cr3t"}
    assert world.status().id == "pod-1"


async def test_what_holds_up_the_repetition_says_that_the_first_is_as_unknown_as_before(world: World) -> None:
    await lost_with_its_secret(world, acted=False)
    await world.wait(200)
    before = world.condition(ConditionType.CREATE_OUTCOME_UNKNOWN)
    await world.kube.delete(SECRETS, NAMESPACE, "keys")
    world.account.state = replace(world.account.ready, resend_unknown=True)
    world.hint()
    await world.wait(10)
    assert (world.reason(), len(world.pods.sent)) == ("EnvMissing", 1)
    assert world.condition(ConditionType.CREATE_OUTCOME_UNKNOWN) == before is not None


@pytest.mark.parametrize("restarts", [False, True])
async def test_retry_by_name_waits_for_webhooks_whatever_the_wall_clock_says(world: World, *, restarts: bool) -> None:
    world.account.state = replace(world.account.ready, resend_unknown=True)
    world.pods.listable = False
    world.pods.fail("create", lost(acted=True))
    world.apply()
    await world.one_pass()
    world.clock.ahead = 3600
    if restarts:
        await world.restart()
    await world.wait(50)
    world.account.ready.unclaimed.add("pod-1")
    world.hint()
    await world.wait(100)
    assert (len(world.pods.sent), len(world.pods.live), world.status().id) == (1, 1, "pod-1")


async def test_people_are_asked_in_time_although_the_wall_clock_was_put_back(world: World) -> None:
    world.pods.listable = False
    world.pods.fail("create", lost(acted=True))
    world.apply()
    await world.one_pass()
    world.clock.ahead = -86400
    await world.wait(70)
    assert world.stalled().startswith("CreateOutcomeUnknown")


@pytest.mark.parametrize("strategy", ["Never", "Recreate"])
async def test_retry_by_name_records_the_spec_that_it_sent_last(world: World, strategy: str) -> None:
    world.account.state = replace(world.account.ready, resend_unknown=True)
    world.pods.listable = False
    world.pods.fail("create", lost(acted=False))
    world.apply(updateStrategy={"type": strategy})
    await world.wait(30)
    world.change(image="pytorch/pytorch:2")
    await world.wait(400)
    assert (world.reason(), world.status().id, len(world.pods.records)) == ("Running", "pod-1", 1)


async def test_what_an_earlier_request_may_have_made_is_not_known_to_differ(world: World) -> None:
    world.account.state = replace(world.account.ready, resend_unknown=True)
    world.pods.listable = False
    await world.kube.create(SECRETS, NAMESPACE, {"metadata": {"name": "keys"}, "data": {"TOKEN": "czNjcjN0"}})
    world.pods.fail("create", lost(acted=True), *[refused(Conflict)] * 9)
    world.apply(envFrom=[{"secretRef": {"name": "keys"}}], updateStrategy={"type": "Recreate"})
    await world.wait(30)
    world.change(shmSizeGb=16)
    world.server.edit("secrets", NAMESPACE, "keys", {"data": {"TOKEN": "b3RoZXI="}})
    await world.wait(200)
    world.pods.listable = True
    await world.wait(2000, step=10)
    assert (world.status().id, len(world.pods.records)) == ("pod-1", 1)
    assert "shmSizeGb" not in digests(world.status().spec_hash or "")
    assert world.status().env_digest is None


async def test_what_is_found_was_made_with_the_secrets_of_its_create(world: World) -> None:
    await lost_with_its_secret(world, acted=True)
    await world.wait(30)
    world.server.edit("secrets", NAMESPACE, "keys", {"data": {"TOKEN": "b3RoZXI="}})
    world.pods.listable = True
    await world.wait(200)
    assert world.status().id == "pod-1"
    assert world.condition(ConditionType.ENV_OUTDATED) is not None


async def test_retry_by_name_waits_for_an_environment_that_is_missing(world: World) -> None:
    world.account.state = replace(world.account.ready, resend_unknown=True)
    world.pods.listable = False
    await world.kube.create(SECRETS, NAMESPACE, {"metadata": {"name": "keys"}, "data": {}})
    world.pods.fail("create", lost(acted=False))
    world.apply(envFrom=[{"secretRef": {"name": "keys"}}])
    await world.settle()
    world.server.remove("secrets", NAMESPACE, "keys")
    await world.wait(200)
    assert (world.pods.count("create"), world.reason()) == (1, "EnvMissing")


@pytest.mark.parametrize("error", [BadRequest, CapacityExhausted, PaymentRequired, RateLimited])
async def test_a_refusal_of_what_is_sent_again_says_nothing_about_the_first_request(
    world: World, error: type[CloudError]
) -> None:
    """The first one may have got the last GPU, or what was left of the funds."""
    world.account.state = replace(world.account.ready, resend_unknown=True)
    world.pods.listable = False
    world.pods.fail("create", lost(acted=True), *[refused(error)] * 99)
    world.apply()
    await world.wait(70)
    first, *again = [intent.name for intent, _ in world.pods.sent]
    assert (set(again), world.reason()) == ({first}, "CreateOutcomeUnknown")
    world.account.ready.unclaimed.add("pod-1")
    world.hint()
    await world.wait(3600, step=30)
    assert (world.reason(), world.status().id, len(world.pods.live)) == ("Running", "pod-1", 1)


async def test_a_refusal_of_what_is_sent_again_is_waited_out(world: World) -> None:
    world.account.state = replace(world.account.ready, resend_unknown=True)
    world.pods.listable = False
    world.pods.fail("create", lost(acted=False), refused(CapacityExhausted, retry_after=100.0))
    world.apply()
    await world.wait(150)
    assert world.pods.count("create") == 2
    await world.wait(100)
    names = {intent.name for intent, _ in world.pods.sent}
    assert (world.reason(), world.pods.count("create"), len(names)) == ("Running", 3, 1)


async def test_absence_counts_from_the_last_request(world: World) -> None:
    """The cloud may act late on what was sent again, as on the first request."""
    world.account.state = replace(world.account.ready, resend_unknown=True)
    world.pods.fail("create", *[lost(acted=False)] * 40)
    world.apply()
    await world.wait(530)
    world.pods.listable = False
    world.hint()
    await world.wait(75)
    assert len(world.pods.sent) > 1
    last, world.pods.listable = world.clock.seconds, True
    while not world.status().attempt:
        await world.wait(1)
    assert world.clock.seconds >= last + 590


async def test_each_repetition_waits_for_a_webhook_about_the_one_before(world: World) -> None:
    """The cloud takes a name twice, and answers nothing."""
    world.account.state = replace(world.account.ready, resend_unknown=True)
    world.pods.listable = False
    world.pods.fail("create", *[lost(acted=False)] * 9)
    world.apply()
    sent = []
    for _ in range(4):
        await world.wait(50)
        sent.append(len(world.pods.sent))
    assert sent == [1, 2, 3, 4]
