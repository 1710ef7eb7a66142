"""What exists is not ended to make room for another that cannot be created, or that nobody asked for."""

from pydantic import JsonValue

from relay_kube.kube import SECRETS
from relay_operator.api.meta import ObjectKey
from tests.unit.flows.managed.running import becomes, made
from tests.unit.flows.managed.world import NAMESPACE, World

H100: JsonValue = {"modelId": "h100"}
RECREATE: JsonValue = {"type": "Recreate"}
FROM_A_SECRET: JsonValue = [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "e1", "key": "A"}}}]


async def with_secret(world: World) -> None:
    await world.kube.create(SECRETS, NAMESPACE, {"metadata": {"name": "e1"}, "data": {"A": "eA=="}})


async def test_its_own_limit(priced: World) -> None:
    await made(priced, gpu=H100, updateStrategy=RECREATE, budget={"maxPricePerHourCents": 300})
    priced.change(gpu={"modelId": "h100", "count": 2})
    await priced.wait(600)
    assert (priced.reason(), priced.pods.count("delete"), len(priced.pods.live)) == ("BudgetExceeded", 0, 1)
    priced.change(budget={"maxPricePerHourCents": 400})
    await priced.wait(60)
    assert (priced.reason(), priced.pods.count("create"), len(priced.pods.live)) == ("Running", 2, 1)


async def test_what_was_interrupted_is_not_given_up_for_one_that_costs_too_much(priced: World) -> None:
    recovery: JsonValue = {"onInterrupted": "Recreate", "afterSeconds": 20}
    await made(priced, gpu=H100, recovery=recovery, budget={"maxPricePerHourCents": 300})
    await becomes(priced, "interrupted")
    priced.change(budget={"maxPricePerHourCents": 100})
    await priced.wait(600)
    assert (priced.reason(), priced.pods.count("delete")) == ("BudgetExceeded", 0)


async def test_a_secret_that_is_missing(world: World) -> None:
    await with_secret(world)
    await made(world, updateStrategy=RECREATE, env=FROM_A_SECRET)
    world.server.remove("secrets", NAMESPACE, "e1")
    world.change(image="another")
    await world.wait(600)
    assert (world.reason(), world.pods.count("delete"), len(world.pods.live)) == ("EnvMissing", 0, 1)
    await with_secret(world)
    await world.wait(600)
    assert (world.reason(), world.pods.count("create"), len(world.pods.live)) == ("Running", 2, 1)


async def test_a_secret_that_is_missing_is_told_though_the_next_one_costs_too_much_as_well(priced: World) -> None:
    await with_secret(priced)
    limit: JsonValue = {"maxPricePerHourCents": 300}
    await made(priced, gpu=H100, updateStrategy=RECREATE, env=FROM_A_SECRET, budget=limit)
    priced.server.remove("secrets", NAMESPACE, "e1")
    priced.change(gpu={"modelId": "h100", "count": 2})
    await priced.wait(60)
    assert (priced.reason(), "Secret e1 in team-a does not exist" in priced.message()) == ("EnvMissing", True)


async def test_an_account_that_is_being_deleted(world: World) -> None:
    await made(world, updateStrategy=RECREATE)
    account = ObjectKey("CloudAccount", NAMESPACE, "default")
    metadata: JsonValue = {"name": "default", "namespace": NAMESPACE, "uid": "a", "deletionTimestamp": "2026-01-01"}
    world.cache.put(account, {"kind": "CloudAccount", "metadata": metadata})
    world.change(image="another")
    await world.wait(600)
    assert (world.reason(), world.pods.count("delete"), len(world.pods.live)) == ("WaitingForAccount", 0, 1)


USED_UP: JsonValue = {"maxRuntimeSeconds": 60}


async def test_what_used_up_its_runtime_is_not_replaced_before_people_want_it_to_run(world: World) -> None:
    await with_secret(world)
    await made(world, updateStrategy=RECREATE, env=FROM_A_SECRET, lifetime=USED_UP)
    await world.wait(100)
    world.server.remove("secrets", NAMESPACE, "e1")
    await world.kube.create(SECRETS, NAMESPACE, {"metadata": {"name": "e1"}, "data": {"A": "eQ=="}})
    await world.wait(2000)
    assert (world.reason(), world.pods.count("create"), world.pods.count("delete")) == ("MaxRuntimeReached", 1, 0)
    assert "it is replaced once it is to run again" in world.message()
    world.annotate(restarted_at="again")
    await world.wait(30)
    assert (world.reason(), world.pods.count("create"), len(world.pods.live)) == ("Running", 2, 1)


async def test_what_is_gone_after_it_used_up_its_runtime_is_not_created_again_before_people_ask(world: World) -> None:
    await made(world, recovery={"onTerminated": "Recreate"}, lifetime=USED_UP)
    await world.wait(100)
    assert world.reason() == "MaxRuntimeReached"
    await becomes(world, "terminated")
    await world.wait(600)
    assert (world.reason(), world.pods.count("create")) == ("TerminatedExternally", 1)
    assert "a new gpurelay.dev/restarted-at makes another" in world.message()
    world.annotate(restarted_at="again")
    await world.wait(30)
    assert (world.reason(), world.pods.count("create"), len(world.pods.live)) == ("Running", 2, 1)


async def test_it_is_stopped_in_time_though_it_is_to_be_replaced(world: World) -> None:
    await made(world, updateStrategy=RECREATE, lifetime=USED_UP)
    world.pods.deaf = True
    await world.wait(70)
    world.change(image="another")
    world.pods.deaf = False
    await world.wait(120)
    assert (world.reason(), world.pods.count("create")) == ("MaxRuntimeReached", 1)
    assert [pod.status for pod in world.pods.live] == ["stopped"]
