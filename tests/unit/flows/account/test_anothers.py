"""A ClusterCloudAccount belongs to the operator in whose namespace its Secret is, if several share a cluster."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from relay_operator.accounts.accounts import is_anothers
from relay_operator.api.cloudaccount import CLUSTER_CLOUD_ACCOUNT, ClusterCloudAccount
from relay_operator.api.meta import FINALIZER, ObjectKey
from relay_operator.engine.account import AccountRefused
from relay_operator.engine.controller import Controller
from relay_operator.engine.queue import Priority, Taken
from relay_operator.settings import Settings
from tests.unit.flows.account.passes import Passes
from tests.unit.flows.managed.world import OPERATOR_NAMESPACE

if TYPE_CHECKING:
    from pydantic import JsonValue

SHARED = ObjectKey("ClusterCloudAccount", "", "shared")
SOME = Settings(watch_namespaces=("team",), namespace=OPERATOR_NAMESPACE)
ALL = Settings(namespace=OPERATOR_NAMESPACE)


def put(passes: Passes, secret_namespace: str, **spec: JsonValue) -> None:
    """The shared account of an operator in this namespace, which has put its finalizer on."""
    ref: JsonValue = {"namespace": secret_namespace, "name": "key", "key": "api-key"}
    metadata: JsonValue = {"name": "shared", "finalizers": [FINALIZER]}
    told: dict[str, JsonValue] = {"baseUrl": passes.cloud.url, "apiKeySecretRef": ref, "allowedNamespaces": {}, **spec}
    account: dict[str, JsonValue] = {"apiVersion": "gpurelay.dev/v1alpha1", "kind": SHARED.kind, "metadata": metadata}
    passes.world.cache.put(SHARED, passes.world.server.put("clustercloudaccounts", {**account, "spec": told}))


async def a_pass(passes: Passes, settings: Settings) -> list[str]:
    """What an operator with these settings writes in a pass over the shared account."""
    flow = replace(passes.flow, definition=CLUSTER_CLOUD_ACCOUNT, model=ClusterCloudAccount)
    controller = Controller(passes.world.reconciler.engine, flow, partial(is_anothers, settings))
    passes.written()
    await controller.reconcile(Taken(SHARED, Priority.CHANGE, passes.world.clock.monotonic()))
    return passes.written()


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
