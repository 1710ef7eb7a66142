"""The create protocol: an intent, one send and one record, and no second send when the answer is lost."""

import pytest

from relay_client import Conflict
from relay_operator.api.meta import FINALIZER
from relay_operator.engine.intent import cloud_name
from tests.unit.flows.managed.cloudpods import lost, refused
from tests.unit.flows.managed.world import NAMESPACE, World


async def test_a_create_writes_its_intent_then_sends_once_then_records_the_id(world: World) -> None:
    order: list[str] = []
    world.server.before = lambda call: order.append("status" if call.status_write else call.method)
    world.pods.on_call = order.append
    world.apply()
    await world.settle()
    assert order == ["PATCH", "create", "status"]
    assert (world.status().id, world.reason()) == ("pod-1", "Running")


async def test_the_intent_carries_the_finalizer_the_name_and_the_account(world: World) -> None:
    world.apply()
    await world.settle()
    obj, intent = world.obj(), world.readable_intent()
    assert obj.metadata.finalizers == [FINALIZER]
    assert intent.name == cloud_name(NAMESPACE, "train", obj.metadata.uid, "c0ffe", 1) == world.pods.created[0]
    assert (intent.attempt, intent.account) == (1, "CloudAccount/default")
    assert intent.token == obj.status.create_token


async def test_create_to_ready_costs_three_writes(world: World) -> None:
    world.pods.born = "deploying"
    world.apply()
    await world.settle()
    world.pods.become("pod-1", "running")
    world.hint()
    await world.settle()
    await world.wait(1000)
    assert world.server.writes == ["PATCH gpupods", "PATCH gpupods/status", "PATCH gpupods/status"]


async def test_nothing_is_created_before_its_webhooks_would_be_heard_or_it_was_waited_long_enough(
    world: World,
) -> None:
    world.account.deaf_until = 20.0
    world.apply()
    await world.wait(19)
    ready = world.condition()
    assert ready is not None
    assert (ready.reason, "is being subscribed" in ready.message) == ("WaitingForAccount", True)
    assert (world.pods.calls, world.intent()) == ([], None)
    await world.wait(1)
    assert (world.status().id, world.reason()) == ("pod-1", "Running")


async def test_what_exists_is_looked_after_although_webhooks_would_not_be_heard(world: World) -> None:
    world.apply()
    await world.settle()
    world.account.deaf_until = 1000.0
    world.change(powerState="Stopped")
    await world.wait(10)
    assert world.reason() == "Stopped"


async def test_a_replica_that_leads_no_longer_sends_nothing(world: World) -> None:
    world.leading = False
    world.apply()
    await world.settle()
    assert world.pods.calls == []
    assert world.status().id is None


@pytest.mark.parametrize("acted", [True, False])
async def test_create_is_not_repeated_when_the_reply_is_lost(world: World, acted: bool) -> None:
    world.pods.fail("create", lost(acted=acted))
    world.apply()
    await world.settle()
    await world.wait(20)
    assert world.pods.count("create") == 1
    await world.wait(700)
    assert len(world.pods.created) == 1
    assert world.status().id == "pod-1"
    assert world.pods.count("create") == (1 if acted else 2)


async def test_a_name_clash_is_looked_up_since_the_create_may_have_landed(world: World) -> None:
    world.pods.fail("create", refused(Conflict))
    world.apply()
    await world.settle()
    assert world.status().create_token is None
    assert world.pods.count("find") == 1


async def test_what_earlier_lists_lacked_does_not_make_the_next_attempt_absent(world: World) -> None:
    """The list lags: the second create landed, and may not be sent again because of the first."""
    world.pods.fail("create", lost(acted=False), lost(acted=True))
    world.pods.hidden.add("pod-1")
    world.apply()
    while world.pods.count("create") < 2:
        await world.wait(1)
    await world.wait(50)
    world.pods.hidden.clear()
    await world.wait(300)
    assert len(world.pods.created) == 1
    assert world.status().id == "pod-1"


@pytest.mark.parametrize("born", ["running", "deploying"])
async def test_a_webhook_that_came_before_the_answer_is_looked_after(world: World, born: str) -> None:
    world.pods.born = born

    def webhook(call: str) -> None:
        if call == "create":
            world.account.ready.unclaimed.add("pod-1")
            world.pods.become("pod-1", "running")

    world.pods.on_call = webhook
    world.apply()
    await world.settle()
    assert world.reason() == "Running"


async def test_an_object_that_cannot_be_read_is_left_alone_without_a_loop(world: World) -> None:
    world.apply()
    world.change(image=7)
    await world.wait(100)
    assert (world.pods.calls, world.server.writes) == ([], ["PATCH gpupods/status"])
    assert [each.outcome for each in world.passes] == ["Stall"]
