"""What a failed call says about money, against what the local cloud then really has."""

from dataclasses import dataclass
from typing import Any

import pytest

from relay_client import (
    CapacityExhausted,
    CircuitOpen,
    Cloud,
    CloudError,
    CloudUnavailable,
    Conflict,
    Forbidden,
    Invalid,
    Outcome,
    PaymentRequired,
    RateLimited,
    Truncated,
    Unauthorized,
    Unreadable,
    listing,
)
from relay_client.operations import (
    CREATE_CLUSTER,
    CREATE_POD,
    GET_BALANCE,
    GET_POD_CAPACITY,
    LIST_CLUSTERS,
    LIST_VMS,
    RESTART_VM,
    TERMINATE_VM,
    WHOAMI,
)
from relay_wire.clusters import ClusterCreate
from relay_wire.pods import PodCreate
from tests.support.localcloud import Control, Organization

POD = PodCreate(image="busybox", name="trainer", gpu_model_id="h100")
CREATE = "POST /v1/pods"


@dataclass(frozen=True)
class Row:
    says: str
    effect: dict[str, Any]
    error: type[CloudError]
    outcome: Outcome
    exists: bool


ROWS = [
    Row("reply lost", {"drop": "after"}, CloudUnavailable, Outcome.UNKNOWN, True),
    Row("request lost", {"drop": "before"}, CloudUnavailable, Outcome.UNKNOWN, False),
    Row("reply cut", {"truncateBytes": 10}, Truncated, Outcome.UNKNOWN, True),
    Row("HTML", {"html": True}, Unreadable, Outcome.UNKNOWN, True),
    Row("server error", {"status": 500}, CloudUnavailable, Outcome.UNKNOWN, False),
    Row("rate limited", {"status": 429, "headers": {"Retry-After": "2"}}, RateLimited, Outcome.REJECTED, False),
    Row(
        "no room",
        {"status": 503, "body": {"error": "full", "code": "NODE_AT_CAPACITY"}, "headers": {"Retry-After": "9"}},
        CapacityExhausted,
        Outcome.REJECTED,
        False,
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=[row.says for row in ROWS])
async def test_only_what_is_surely_absent_is_called_rejected(
    row: Row, cloud: Cloud, control: Control, organization: Organization
) -> None:
    await control.fault(CREATE, row.effect, organizationId=organization.id, count=1)
    with pytest.raises(row.error) as caught:
        await cloud.call(CREATE_POD, POD)
    assert caught.value.outcome is row.outcome
    found = await listing(cloud, LIST_VMS)
    if row.outcome is not Outcome.UNKNOWN:
        assert found.items == ()
    elif row.exists:
        assert [pod.name for pod in found.items] == ["trainer"]


async def test_a_read_survives_trouble_that_passes(cloud: Cloud, control: Control, organization: Organization) -> None:
    for effect in ({"drop": "after"}, {"status": 502}, {"truncateBytes": 5}):
        await control.fault("GET /v1/whoami", effect, organizationId=organization.id, count=2)
        assert (await cloud.call(WHOAMI)).organization_id == organization.id


async def test_a_name_that_is_taken_is_a_conflict(cloud: Cloud) -> None:
    first = await cloud.call(CREATE_CLUSTER, ClusterCreate(name="llm", gpu_model_id="h100", image_url="busybox"))
    with pytest.raises(Conflict) as caught:
        await cloud.call(CREATE_CLUSTER, ClusterCreate(name="llm", gpu_model_id="h100", image_url="busybox"))
    assert caught.value.outcome is Outcome.REJECTED
    assert [cluster.id for cluster in (await listing(cloud, LIST_CLUSTERS)).items] == [first.id]


async def test_a_start_that_the_node_refuses_tells_its_code(cloud: Cloud) -> None:
    pod = await cloud.call(CREATE_POD, POD)
    with pytest.raises(Conflict):
        await cloud.call(RESTART_VM, id=pod.id)  # while it is deploying


async def test_what_makes_no_sense_is_invalid(cloud: Cloud) -> None:
    with pytest.raises(Invalid, match="nonesuch"):
        await cloud.call(CREATE_POD, PodCreate(image="busybox", gpu_model_id="nonesuch"))


async def test_without_room_it_is_a_capacity_error_with_a_wait(cloud: Cloud) -> None:
    whole_node = PodCreate(image="busybox", gpu_model_id="rtx4090", gpu_count=8)
    capacity = {item.gpu_model_id: item for item in (await cloud.call(GET_POD_CAPACITY)).items}
    room = capacity["rtx4090"].free_units // 8
    pods = [await cloud.call(CREATE_POD, whole_node) for _ in range(room)]
    with pytest.raises(CapacityExhausted) as caught:
        await cloud.call(CREATE_POD, whole_node)
    assert caught.value.outcome is Outcome.REJECTED
    assert caught.value.retry_after
    for pod in pods:
        await cloud.call(TERMINATE_VM, id=pod.id)


async def test_without_funds_a_create_needs_payment(cloud: Cloud, control: Control, organization: Organization) -> None:
    await control.change_organization(organization.id, balanceCents=0)
    with pytest.raises(PaymentRequired) as caught:
        await cloud.call(CREATE_POD, POD)
    assert caught.value.code == "INSUFFICIENT_BALANCE"


async def test_a_scope_that_is_lacking_is_forbidden(control: Control) -> None:
    poor = await control.create_organization("Poor", scopes=["clusters:read"])
    async with Cloud(poor.management_url, poor.api_key) as cloud:
        assert (await listing(cloud, LIST_CLUSTERS)).items == ()
        with pytest.raises(Forbidden):
            await cloud.call(GET_BALANCE)
        with pytest.raises(Forbidden):
            await cloud.call(CREATE_POD, POD)


async def test_a_key_that_is_not_known_opens_the_circuit(organization: Organization, control: Control) -> None:
    async with Cloud(organization.management_url, "or_never_issued_0123456789") as cloud:
        with pytest.raises(Unauthorized):
            await cloud.call(WHOAMI)
        before = len(await control.requests())
        with pytest.raises(CircuitOpen):
            await cloud.call(CREATE_POD, POD)
    assert len(await control.requests()) == before
