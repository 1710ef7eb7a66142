"""Passes over an account: what they tell of the month, and that they write no more than that."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from relay_operator.api.meta import ObjectKey
from relay_operator.engine.account import AccountReady, AccountWaiting
from relay_operator.engine.leftover import Fate, Leftover
from relay_operator.engine.leftovers import _OTHERS
from tests.unit.flows.account.passes import KEY, LOOK, Passes
from tests.unit.flows.managed.world import NAMESPACE

if TYPE_CHECKING:
    from pydantic import JsonValue

CONFIG_MAP = "configmaps", NAMESPACE, "relay-spend-default"


async def test_what_an_object_spent_is_told_as_soon_as_it_is_a_cent_and_kept_when_it_is_gone(passes: Passes) -> None:
    spend = await passes.look()
    assert (spend is not None and spend.by_namespace, CONFIG_MAP in passes.world.server.objects) == ([], False)
    passes.used_by("train", 1)
    spend = await passes.look()
    assert spend is not None
    assert [(one.name, one.cents) for one in spend.by_namespace] == [(NAMESPACE, 1)]
    assert CONFIG_MAP in passes.world.server.objects
    passes.world.cache.drop(ObjectKey("GpuPod", NAMESPACE, "train"))
    await passes.restart()
    await passes.look()
    shown = {"account_namespace": NAMESPACE, "account": "default", "namespace": NAMESPACE}
    labels = {**shown, "cost_center": "unattributed"}
    assert passes.metrics.registry.get_sample_value("gpurelay_spend_cents", labels) == 1


async def test_what_is_settled_writes_nothing_and_what_spends_little_writes_once_an_hour(passes: Passes) -> None:
    passes.used_by("train", 1_000)
    await passes.look()
    passes.written()
    for _ in range(4):
        await passes.look(LOOK * 4)
    assert passes.written() == []
    passes.used_by("train", 1_050)
    first = await passes.look()
    assert passes.written() == ["PATCH cloudaccounts/status"]
    for cents in range(1_051, 1_062):
        passes.used_by("train", cents)
        assert await passes.look() == first
    assert passes.written() == []
    passes.used_by("train", 1_070)
    assert await passes.look() != first
    assert passes.written() == ["PATCH cloudaccounts/status"]


async def test_where_it_is_is_not_written_again_and_again_to_an_older_crd(passes: Passes) -> None:
    passes.world.reconciler.engine.served.outdated = "the CRDs are older"
    await passes.look()
    assert passes.status().endpoint is None
    passes.world.reconciler.engine.served.outdated = ""
    await passes.look()
    assert passes.status().endpoint is not None


async def test_books_that_cannot_be_kept_are_told_with_the_account(passes: Passes) -> None:
    theirs: JsonValue = {"name": CONFIG_MAP[2], "namespace": NAMESPACE}
    passes.world.server.put("configmaps", {"metadata": theirs})
    passes.used_by("train", 5)
    await passes.look()
    status, message = passes.condition("Ready")
    assert (status, "relay-spend-default" in message) == ("True", True)


async def test_while_something_waits_for_funds_the_balance_alone_is_read_and_a_rise_calls_it(passes: Passes) -> None:
    passes.cloud.available = -324
    await passes.settled()
    assert "balance" not in await passes.glances(60)
    pod = ObjectKey("GpuPod", NAMESPACE, "train")
    await passes.refuse(pod)
    assert await passes.glances(60) == ["balance"] * 6
    passes.cloud.available = 1_000
    called = await passes.glances(12)
    assert (called[0], called.count("balance"), "usage" in called) == ("balance", 2, True)
    assert passes.called == [pod]
    assert "balance" not in await passes.glances(60)


async def test_funds_that_are_gone_are_told_with_the_balance_that_is_read_anyway(passes: Passes) -> None:
    await passes.settled()
    passes.cloud.available = -324
    await passes.refuse(ObjectKey("GpuPod", NAMESPACE, "train"))
    assert await passes.glances(1) == ["balance"]
    status, message = passes.condition("FundsLow")
    assert (status, message) == ("True", "the available balance is -324 cents: add funds, or nothing starts")


async def test_it_is_known_since_when_there_are_funds_above_the_floor(passes: Passes) -> None:
    passes.cloud.floor = 100
    await passes.settled()
    ready = await passes.accounts.state(KEY)
    assert isinstance(ready, AccountReady)
    passes.world.clock.seconds += 7
    assert passes.accounts.seen_funded(ready) == 7
    passes.cloud.available = 100
    await passes.refuse(ObjectKey("GpuPod", NAMESPACE, "train"))
    await passes.glances(1)
    assert passes.accounts.seen_funded(ready) is None
    assert passes.accounts.seen_funded(replace(ready, key=ready.key._replace(name="other"))) is None


async def test_a_key_that_may_not_read_the_balance_is_not_asked_for_it_all_the_time(passes: Passes) -> None:
    passes.cloud.available = None
    await passes.settled()
    await passes.refuse(ObjectKey("GpuPod", NAMESPACE, "train"))
    assert (await passes.glances(200)).count("balance") == 1


async def test_reconcile_at_is_heeded_at_once_and_then_once_in_some_seconds(passes: Passes) -> None:
    await passes.settled()
    await passes.glances(3)
    looks = []
    for second in range(25):
        passes.ask(str(second))
        passes.cloud.asked.clear()
        await passes.go_on(1)
        looks += [second] * passes.cloud.asked.count("usage")
    assert looks == [0, 10, 20]
    assert passes.status().reconcile_at == "20"
    assert (await passes.glances(20)).count("usage") == 1
    assert passes.status().reconcile_at == "24"
    passes.ask("later")
    await passes.go_on(0)
    assert passes.status().reconcile_at == "later"


async def test_a_request_that_the_cloud_does_not_answer_is_no_reason_for_more(passes: Passes) -> None:
    await passes.settled()
    passes.cloud.failing = ("balance", "usage")
    passes.cloud.asked.clear()
    for second in range(10):
        passes.ask(str(second))
        await passes.go_on(1)
    assert passes.cloud.asked.count("balance") <= 4  # the attempts of one call


async def test_records_that_one_pass_does_not_write_have_passes_soon(passes: Passes) -> None:
    await passes.settled()
    told = {"fate": Fate.ORPHAN, "kind": "GpuPod", "account": KEY, "organization": "org-1"}
    leftovers = passes.world.informer.vanished.leftovers
    for number in range(3 * _OTHERS):
        leftovers.note(Leftover.model_validate({**told, "id": f"pod-{number}", "since": passes.world.clock.wall()}))
    await passes.go_on(1)
    assert leftovers.untried(KEY)
    asked = await passes.glances(60)
    assert (leftovers.untried(KEY), leftovers.waits(), asked) == (False, False, [])


async def test_why_a_namespace_has_no_default_account_is_told_with_what_can_be_done(passes: Passes) -> None:
    nothing = await passes.accounts.resolve("default", None)
    assert isinstance(nothing, AccountWaiting)
    assert "there is no ClusterCloudAccount of that name: create one, or" in nothing.message
    ref: JsonValue = {"name": "key", "key": "api-key", "namespace": "relay-system"}
    spec: JsonValue = {"apiKeySecretRef": ref, "allowedNamespaces": {"matchLabels": {"team": "ml"}}}
    shared: dict[str, JsonValue] = {
        "metadata": {"name": "default", "uid": "shared", "resourceVersion": "1"},
        "spec": spec,
    }
    passes.world.cache.put(ObjectKey("ClusterCloudAccount", "", "default"), shared)
    refused = await passes.accounts.resolve("default", None)
    assert isinstance(refused, AccountWaiting)
    assert "ClusterCloudAccount/default does not admit it: a cluster administrator can give" in refused.message
