"""A ClusterCloudAccount belongs to the operator in whose namespace its Secret is, if several share a cluster."""

from __future__ import annotations

import base64
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from relay_operator.accounts.account_object import is_anothers
from relay_operator.api.cloudaccount import CLUSTER_CLOUD_ACCOUNT, ClusterCloudAccount
from relay_operator.api.cloudaccount_status import AccountStatus
from relay_operator.api.meta import FINALIZER, ObjectKey
from relay_operator.engine.account import AccountRefused
from relay_operator.engine.controller import Controller
from relay_operator.engine.queue import Priority, Taken
from relay_operator.settings import Settings
from tests.unit.engine.apiserver import Json, part
from tests.unit.flows.account.passes import Passes
from tests.unit.flows.managed.world import NAMESPACE, OPERATOR_NAMESPACE

if TYPE_CHECKING:
    from pydantic import JsonValue

SHARED = ObjectKey("ClusterCloudAccount", "", "shared")
USER = ObjectKey("GpuPod", NAMESPACE, "trainer")
SOME = Settings(watch_namespaces=("team",), namespace=OPERATOR_NAMESPACE)
ALL = Settings(namespace=OPERATOR_NAMESPACE)


def put(passes: Passes, secret_namespace: str, **spec: JsonValue) -> None:
    """The shared account of an operator in this namespace, which has put its finalizer on."""
    ref: JsonValue = {"namespace": secret_namespace, "name": "key", "key": "api-key"}
    metadata: JsonValue = {"name": "shared", "finalizers": [FINALIZER]}
    told: dict[str, JsonValue] = {"baseUrl": passes.cloud.url, "apiKeySecretRef": ref, "allowedNamespaces": {}, **spec}
    account: dict[str, JsonValue] = {"apiVersion": "gpurelay.dev/v1alpha1", "kind": SHARED.kind, "metadata": metadata}
    passes.world.cache.put(SHARED, passes.world.server.put("clustercloudaccounts", {**account, "spec": told}))


def operator(passes: Passes, settings: Settings) -> Controller[Any, Any, Any, Any, Any]:
    """A process of an operator with these settings, of which shared accounts are its own."""
    flow = replace(passes.flow, definition=CLUSTER_CLOUD_ACCOUNT, model=ClusterCloudAccount)
    return Controller(passes.world.reconciler.engine, flow, partial(is_anothers, settings))


async def a_pass(
    passes: Passes, settings: Settings, process: Controller[Any, Any, Any, Any, Any] | None = None
) -> list[str]:
    """What an operator with these settings writes in a pass over the shared account."""
    passes.written()
    reconciler = process or operator(passes, settings)
    await reconciler.reconcile(Taken(SHARED, Priority.CHANGE, passes.world.clock.monotonic()))
    return passes.written()


def edit(passes: Passes, patch: Json, *, status: bool = False) -> None:
    """What somebody else changes of the shared account."""
    passes.world.cache.put(SHARED, passes.world.server.edit("clustercloudaccounts", "", "shared", patch, status=status))


def move(passes: Passes, **spec: JsonValue) -> None:
    """Another operator's from now on."""
    edit(passes, {"spec": {"apiKeySecretRef": {"namespace": "another-release"}, **spec}})


def told(passes: Passes) -> AccountStatus:
    """The status of the shared account."""
    return AccountStatus.model_validate(stored(passes)["status"])


def stored(passes: Passes) -> Json:
    return passes.world.server.objects["clustercloudaccounts", "", "shared"]


@dataclass
class Managed:
    """A shared account that works, the operator that manages it, and a settled pod that uses it."""

    passes: Passes
    process: Controller[Any, Any, Any, Any, Any]

    async def a_pass(self) -> list[str]:
        return await a_pass(self.passes, SOME, self.process)


@pytest_asyncio.fixture
async def managed(passes: Passes) -> Managed:
    passes.watched = SOME.watch_namespaces
    await passes.restart()
    api_key: JsonValue = {"api-key": base64.b64encode(b"or_test_key").decode()}
    passes.world.server.put("secrets", {"metadata": {"name": "key", "namespace": OPERATOR_NAMESPACE}, "data": api_key})
    put(passes, OPERATOR_NAMESPACE)
    metadata: JsonValue = {
        "name": USER.name,
        "namespace": NAMESPACE,
        "uid": "u",
        "resourceVersion": "1",
        "generation": 1,
    }
    ready: JsonValue = [{"type": "Ready", "status": "True", "reason": "Running"}]
    status: JsonValue = {"id": "pod-1", "observedGeneration": 1, "conditions": ready}
    spec: JsonValue = {"accountRef": {"kind": SHARED.kind, "name": SHARED.name}}
    passes.world.cache.put(USER, {"metadata": metadata, "spec": spec, "status": status})
    made = Managed(passes, operator(passes, SOME))
    await made.a_pass()
    assert [one.status for one in told(passes).conditions if one.type == "Ready"] == ["True"]
    await passes.woken()
    return made


async def test_one_that_becomes_another_operator_s_says_so_once_and_wakes_what_uses_it(managed: Managed) -> None:
    passes = managed.passes
    move(passes)
    assert await managed.a_pass() == ["PATCH clustercloudaccounts/status"]
    after = told(passes)
    assert {one.type: one.status for one in after.conditions} == {"Ready": "False", "Stalled": "True"}
    assert {one.reason for one in after.conditions} == {"AccountNotAllowed"}
    assert after.conditions[0].message.endswith(f"{OPERATOR_NAMESPACE}; it is left to the release in another-release")
    assert USER in await passes.woken()
    move(passes, allowAdoption=True)
    assert await managed.a_pass() == []
    assert told(passes) == after


async def test_one_that_is_unreadable_as_well_says_that_once(managed: Managed) -> None:
    move(managed.passes, rateLimit="of a later release")
    assert await managed.a_pass() == ["PATCH clustercloudaccounts/status"]
    assert [one.reason for one in told(managed.passes).conditions if one.type == "Ready"] == ["Unreadable"]
    assert USER in await managed.passes.woken()
    assert await managed.a_pass() == []


async def test_one_that_its_new_operator_was_faster_to_tell_of_wakes_what_uses_it(managed: Managed) -> None:
    move(managed.passes)
    generation = part(stored(managed.passes), "metadata")["generation"]
    edit(managed.passes, {"status": {"observedGeneration": generation}}, status=True)
    before = told(managed.passes)
    assert (await managed.a_pass(), told(managed.passes)) == ([], before)
    assert USER in await managed.passes.woken()


async def test_one_that_becomes_another_operator_s_and_is_deleted_at_once_is_left_as_it_is(managed: Managed) -> None:
    move(managed.passes)
    delete(managed.passes)
    assert await managed.a_pass() == []
    assert ("clustercloudaccounts", "", "shared") in managed.passes.world.server.objects
    assert USER in await managed.passes.woken()


def delete(passes: Passes) -> None:
    """`kubectl delete` of the shared account."""
    passes.world.server.remove("clustercloudaccounts", "", "shared")
    passes.world.cache.put(SHARED, passes.world.server.objects["clustercloudaccounts", "", "shared"])


@pytest.mark.parametrize("spec", [{}, {"rateLimit": "of a later release"}], ids=["readable", "unreadable"])
async def test_one_of_another_operator_is_left_as_it_is_even_when_it_is_deleted(
    passes: Passes, spec: dict[str, JsonValue]
) -> None:
    put(passes, "another-release", **spec)
    assert await a_pass(passes, SOME) == []
    delete(passes)
    assert await a_pass(passes, SOME) == []
    assert ("clustercloudaccounts", "", "shared") in passes.world.server.objects


async def test_a_url_that_is_not_allowed_is_told_with_its_account_and_field(passes: Passes) -> None:
    put(passes, OPERATOR_NAMESPACE, inferenceUrl="https://elsewhere.example.com")
    state = await passes.accounts.state(SHARED)
    assert isinstance(state, AccountRefused)
    assert state.message.startswith(f"spec.inferenceUrl of the {SHARED}: https://elsewhere.example.com is not among")
    assert "cloud.allowedBaseUrls" in state.message


async def test_workloads_that_name_one_of_another_operator_are_told_that_they_may_not(passes: Passes) -> None:
    put(passes, "another-release")
    state = await passes.accounts.state(SHARED)
    assert isinstance(state, AccountRefused)
    assert (state.reason, OPERATOR_NAMESPACE in state.message) == ("AccountNotAllowed", True)


@pytest.mark.parametrize(
    ("settings", "secret_namespace"),
    [(SOME, OPERATOR_NAMESPACE), (ALL, OPERATOR_NAMESPACE), (ALL, "another-release")],
    ids=["the key is here", "all is watched", "all is watched and the key is elsewhere"],
)
async def test_every_other_is_told_of_and_let_go(passes: Passes, settings: Settings, secret_namespace: str) -> None:
    put(passes, secret_namespace)
    assert "PATCH clustercloudaccounts/status" in await a_pass(passes, settings)
    delete(passes)
    assert "PATCH clustercloudaccounts" in await a_pass(passes, settings)
    assert ("clustercloudaccounts", "", "shared") not in passes.world.server.objects
