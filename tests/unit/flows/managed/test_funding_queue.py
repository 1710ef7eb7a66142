"""What is over its budget waits, and what has waited longest comes first."""

import pytest
from pydantic import JsonValue

from relay_client import CapacityExhausted
from relay_operator.api import meta
from relay_operator.api.cloudaccount import AccountBudget, NamespaceBudget, SharedBudget
from relay_operator.api.conditions import Reason
from relay_operator.engine.account import AccountWaiting
from relay_operator.engine.manifests import part
from tests.unit.engine.apiserver import Json
from tests.unit.flows.managed.cloudpods import lost, refused
from tests.unit.flows.managed.money import H100, TWO, limited
from tests.unit.flows.managed.world import World, pod_problem

EITHER: JsonValue = {"modelIds": ["h100", "b200"], "count": 1}


async def test_what_is_over_waits_the_oldest_first_and_starts_when_room_comes(priced: World) -> None:
    limited(priced, AccountBudget(max_burn_per_hour_cents=400))
    for name, gpu in (("a", H100), ("b", H100), ("c", TWO), ("d", H100)):
        priced.clock.seconds += 1
        priced.apply(name, gpu=gpu)
    await priced.wait(10)
    assert [priced.reason(name) for name in "abcd"] == ["Running", "Running", "WaitingForBudget", "WaitingForBudget"]
    assert priced.message("c").endswith("400 are taken: 400 too much")
    priced.delete("a")
    await priced.wait(30)
    assert priced.message("c").endswith("200 are taken: 200 too much")
    await priced.wait(400)
    assert priced.message("d") == "an older object waits for what is free"
    writes = len(priced.server.writes)
    await priced.wait(400)
    assert len(priced.server.writes) == writes
    priced.delete("b")
    await priced.wait(30)
    assert [priced.reason(name) for name in "cd"] == ["Running", "WaitingForBudget"]
    priced.delete("c")
    await priced.wait(30)
    assert priced.reason("d") == "Running"


@pytest.mark.parametrize("deaf_for", [0, 15])
async def test_who_waited_keeps_its_place_in_the_next_process(priced: World, deaf_for: float) -> None:
    budget = SharedBudget(per_namespace=NamespaceBudget(max_burn_per_hour_cents=200))
    limited(priced, budget)
    for name in "zya":
        priced.clock.seconds += 1
        priced.apply(name, gpu=H100)
    await priced.wait(10)
    priced.delete("z")
    await priced.restart()
    priced.account.deaf_until = priced.clock.seconds + deaf_for
    limited(priced, budget)
    await priced.wait(60)
    assert [priced.reason(name) for name in "ya"] == ["Running", "WaitingForBudget"]


async def test_who_waited_and_was_paused_since_holds_up_nobody_in_the_next_process(priced: World) -> None:
    limited(priced, SharedBudget(per_namespace=NamespaceBudget(max_gpus=2)))
    priced.apply("there", gpu=H100)
    priced.apply("big", gpu=TWO, accountRef={"name": "default"})
    await priced.wait(10)
    priced.annotate("big", paused="true")
    await priced.wait(10)
    assert (priced.reason("there"), priced.reason("big")) == ("Running", "WaitingForBudget")
    await priced.restart()
    await priced.wait(10)
    priced.apply("small", gpu=H100)
    await priced.wait(10)
    assert priced.reason("small") == "Running"


async def test_one_whose_create_came_to_nothing_keeps_its_place(priced: World) -> None:
    limited(priced, AccountBudget(max_burn_per_hour_cents=200))
    priced.pods.fail("create", lost(acted=False))
    priced.apply("a", gpu=H100)
    await priced.one_pass()
    priced.clock.seconds += 1
    for name in "bc":
        priced.apply(name, gpu=H100)
    await priced.wait(3600, step=10)
    assert [priced.reason(name) for name in "abc"] == ["Running", "WaitingForBudget", "WaitingForBudget"]


async def test_one_that_goes_while_it_waits_is_forgotten(priced: World) -> None:
    limited(priced, AccountBudget(max_burn_per_hour_cents=0))
    for name in "ab":
        priced.clock.seconds += 1
        priced.apply(name, gpu=H100)
    await priced.wait(10)
    priced.delete("a")
    await priced.settle()
    limited(priced, AccountBudget(max_burn_per_hour_cents=200))
    await priced.wait(10)
    assert priced.reason("b") == "Running"


async def test_a_limit_that_goes_lets_all_go(priced: World) -> None:
    limited(priced, AccountBudget(max_burn_per_hour_cents=0))
    priced.apply(gpu=H100)
    await priced.wait(10)
    assert priced.reason() == "WaitingForBudget"
    limited(priced, None)
    await priced.wait(10)
    assert priced.reason() == "Running"


@pytest.mark.parametrize(
    ("reason", "first"),
    [
        (Reason.CLOUD_UNAVAILABLE, "b"),
        (Reason.SECRET_MISSING, "b"),
        (Reason.ACCOUNT_UNAUTHORIZED, "b"),
        (Reason.ACCOUNT_FORBIDDEN, "b"),
        (Reason.SPEC_INVALID, "b"),
        (Reason.ACCOUNT_MISSING, "c"),
    ],
)
async def test_who_waited_keeps_its_place_while_nobody_can_use_the_account(
    priced: World, reason: Reason, first: str
) -> None:
    limited(priced, AccountBudget(max_burn_per_hour_cents=200))
    for name in "abc":
        priced.clock.seconds += 1
        priced.apply(name, gpu=H100)
    await priced.wait(10)
    usable, priced.account.state = priced.account.ready, AccountWaiting(reason, "not now")
    for name in "abc":
        priced.hint(name)
    await priced.wait(10)
    priced.account.state = usable
    limited(priced, AccountBudget(max_burn_per_hour_cents=400), only="c")
    await priced.settle()
    limited(priced, AccountBudget(max_burn_per_hour_cents=400))
    await priced.wait(10)
    assert [name for name in "bc" if priced.reason(name) == "Running"] == [first]


@pytest.mark.parametrize(("failures", "first"), [(1, "old"), (4, "young")])
async def test_who_waits_for_a_start_keeps_its_place_for_a_few_looks_without_an_answer(
    priced: World, failures: int, first: str
) -> None:
    limited(priced, AccountBudget(max_burn_per_hour_cents=200))
    priced.apply("old", gpu=H100, powerState="Stopped")
    await priced.wait(10)
    priced.clock.seconds += 1
    priced.apply("there", gpu=H100)
    await priced.wait(10)
    priced.clock.seconds += 1
    priced.apply("young", gpu=H100)
    priced.change("old", powerState="Running")
    await priced.wait(10)
    assert [priced.reason(name) for name in ("old", "young")] == ["WaitingForBudget", "WaitingForBudget"]
    priced.pods.fail("observe", *[lost(acted=False)] * failures)
    for _ in range(failures):
        priced.hint("old")
        await priced.one_pass()
    limited(priced, AccountBudget(max_burn_per_hour_cents=400), only="young")
    await priced.settle()
    assert ("old" if priced.reason("young") == "WaitingForBudget" else "young") == first


async def test_a_second_model_without_room_in_the_limits_leads_back_to_the_first(priced: World) -> None:
    limited(priced, AccountBudget(max_burn_per_hour_cents=600))
    priced.apply("there", gpu=H100)
    await priced.wait(5)
    priced.pods.fail("create", refused(CapacityExhausted))
    for name, gpu in (("old", EITHER), ("young", H100)):
        priced.apply(name, gpu=gpu)
        await priced.wait(10)
    assert priced.message("old").startswith("it costs 500 cents/h")
    await priced.wait(600)
    assert [inputs.model_id for _, inputs in priced.pods.sent] == ["h100"] * 4
    assert [priced.reason(name) for name in ("old", "young")] == ["Running", "Running"]


async def test_who_cannot_be_written_gives_its_room_to_others(priced: World) -> None:
    def problem(raw: Json) -> str | None:
        metadata = part(raw, "metadata")
        refuses = metadata["name"] == "old" and meta.CREATE_INTENT in part(metadata, "annotations")
        return "metadata.annotations: Too long" if refuses else pod_problem(raw)

    priced.server._validate = problem
    limited(priced, AccountBudget(max_burn_per_hour_cents=200))
    for name in ("old", "young"):
        priced.clock.seconds += 1
        priced.apply(name, gpu=H100, accountRef={"name": "default"})
    await priced.wait(900)
    assert [inputs.model_id for _, inputs in priced.pods.sent] == ["h100"]
    assert priced.reason("young") == "Running"
