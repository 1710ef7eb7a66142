"""A look at a shared account finds out in which namespaces the reservations of objects count."""

import base64

import pytest
from pydantic import JsonValue

from relay_operator.api.meta import CREATE_INTENT, ObjectKey
from relay_operator.budgets.lines import Age
from relay_operator.engine.account import AccountReady
from relay_operator.engine.commitment import Commitment
from tests.unit.engine.apiserver import Fault
from tests.unit.flows.account.passes import Passes
from tests.unit.flows.account.test_anothers import ALL, SHARED, USER, a_pass, operator, put
from tests.unit.flows.managed.world import NAMESPACE, OPERATOR_NAMESPACE

INTENT = (
    '{"token":"t1","name":"n","attempt":1,"specHash":"","startedAt":"2026-03-01T12:00:00Z",'
    '"account":"ClusterCloudAccount/shared","reserved":{"token":"r","cents":9007199254740991,"gpus":9}}'
)


@pytest.mark.parametrize(("namespace", "counts"), [("a", True), ("b", False), ("none", False), ("unreadable", True)])
async def test_a_reservation_of_a_paused_object_counts_if_the_account_admits_it(
    passes: Passes, namespace: str, *, counts: bool
) -> None:
    server, cache = passes.world.server, passes.world.cache
    if namespace != "none":
        server.put("namespaces", {"kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": {"team": namespace}}})
    api_key: JsonValue = {"api-key": base64.b64encode(b"or_test_key").decode()}
    server.put("secrets", {"metadata": {"name": "key", "namespace": OPERATOR_NAMESPACE}, "data": api_key})
    passes.cloud.breakdown = []
    put(
        passes,
        OPERATOR_NAMESPACE,
        allowedNamespaces={"matchLabels": {"team": "a"}},
        budget={"maxBurnPerHourCents": 500},
    )
    annotations: JsonValue = {CREATE_INTENT: INTENT, "gpurelay.dev/paused": "true"}
    cache.put(USER, {"metadata": {"uid": "u", "annotations": annotations}, "spec": {}, "status": {}})
    if namespace == "unreadable":
        server.faults.append(Fault(403, method="GET", plural="namespaces", times=100))
    await a_pass(passes, ALL, operator(passes, ALL))
    state = await passes.accounts.state(SHARED)
    assert isinstance(state, AccountReady)
    other = ObjectKey("GpuPod", "elsewhere", "other")
    refused = passes.flow.actor.budgets.would_refuse(other, Age("2026-03-01T12:00:00Z", "o"), state, Commitment(100, 1))
    assert bool(refused) is counts
