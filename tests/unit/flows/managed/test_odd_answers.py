"""Whatever the cloud says, a status can be made of it, and the API server takes that status."""

from datetime import timedelta
from typing import cast

import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st
from pydantic import JsonValue, ValidationError
from pydantic.fields import FieldInfo

from relay_operator.api.meta import Model
from relay_operator.crds.structural import structural
from relay_operator.engine.actions import Keep, Nothing
from relay_operator.engine.backoff import Backoff, RetryPolicy
from relay_operator.engine.fit_schema import fit_schema, moment
from relay_operator.engine.shared_lists import SharedLists
from relay_operator.engine.status import dumped
from relay_operator.flows.managed.facts import Facts
from relay_operator.flows.managed.report import report_of
from relay_operator.flows.managed.status import new_status
from relay_operator.flows.managed.view import View
from relay_operator.kinds.gpucluster import (
    GpuCluster,
    GpuClusters,
    GpuClusterSpec,
    GpuClusterStatus,
    ReplicaStatus,
    SeenCluster,
)
from relay_operator.kinds.gpupod import GpuPodStatus
from relay_wire.api_keys import ApiKeySummary
from relay_wire.base import RESOURCE_ID, Received
from relay_wire.clusters import ClusterDetail, ClusterSummary, Replica
from relay_wire.inference import Backend
from relay_wire.orgs import Member
from relay_wire.provider import ProviderNode, ProvisioningToken
from relay_wire.registry_credentials import RegistryCredential
from relay_wire.reservations import Reservation
from relay_wire.runner_pools import RunnerPool
from relay_wire.serving import Deployment
from relay_wire.snapshots import Snapshot
from relay_wire.ssh_keys import SshKey
from relay_wire.vms import VmRecord
from tests.unit.engine.structural import problems
from tests.unit.flows.managed.every_kind import EXAMPLES
from tests.unit.flows.managed.facts import INTENT, NOW, PODS, PodFacts, account, pod

PACING = RetryPolicy(Backoff(1.0, 300.0), lambda: 0.0)
CLUSTERS = GpuClusters(SharedLists(60.0, lambda: 0.0))
CLUSTER = GpuCluster.model_validate({"metadata": {"name": "serve", "namespace": "team-a"}, "spec": {"replicas": 2}})

MOMENTS = ["0001-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00", "2026-03-01T12:00:00"]
TEXTS = st.one_of(
    st.text(max_size=20),
    st.text(min_size=1, max_size=3).map(lambda text: text * 900),
    st.sampled_from([*MOMENTS, "2026-03-01T12:00:00Z", "http://[", "running", "failed"]),
)
NUMBERS = st.one_of(st.integers(), st.sampled_from([-1, 2**31, 2**63, -(2**63) - 1, 10**30]))
ANYTHING = st.one_of(st.none(), st.booleans(), TEXTS, NUMBERS, st.floats(), st.lists(TEXTS, max_size=2))
IDS = st.from_regex(RESOURCE_ID, fullmatch=True)


def _values(field: FieldInfo, name: str) -> st.SearchStrategy[object]:
    typed = ((str, TEXTS), (int, NUMBERS), (bool, st.booleans()))
    if name == "id":
        return IDS
    return next((values for kind, values in typed if field.annotation is kind), ANYTHING)


def told(model: type[Received], **given: st.SearchStrategy[object]) -> st.SearchStrategy[dict[str, object]]:
    """What the cloud may answer with, under the wire's names."""
    fields = {field.alias or name: _values(field, name) for name, field in model.model_fields.items()}
    return st.fixed_dictionaries(fields | given)


REPLICAS = st.lists(told(Replica, id=st.text(min_size=1, max_size=400)), max_size=4)
SCHEMAS = {model: structural(model) for model in (GpuPodStatus, GpuClusterStatus)}


def refused(status: GpuPodStatus | GpuClusterStatus) -> list[str]:
    return list(problems(SCHEMAS[type(status)], cast("JsonValue", dumped(status))))


@settings(max_examples=60)
@given(told(VmRecord))
def test_every_pod_has_a_status_that_is_taken(answer: dict[str, object]) -> None:
    seen = VmRecord.model_validate(answer)
    obj = pod(status={"id": seen.id})
    assert refused(PODS.status(obj, seen)) == []
    facts: PodFacts = Facts(PODS, obj.key, obj, NOW, account(), View(), INTENT, seen)
    report = report_of(facts, Keep(), Nothing(), unreachable=False)
    assert report is not None
    assert refused(new_status(facts, Keep(), Nothing(), report, PACING)) == []
    assert PODS.reached(seen).values(secret=True)["id"] == seen.id


RECORDS: dict[str, type[Received]] = {
    "GpuVm": VmRecord,
    "SshKey": SshKey,
    "RegistryCredential": RegistryCredential,
    "ApiKey": ApiKeySummary,
    "OrganizationMember": Member,
    "VmSnapshot": Snapshot,
    "RunnerPool": RunnerPool,
    "ProvisioningToken": ProvisioningToken,
    "ProviderNode": ProviderNode,
    "InferenceBackend": Backend,
    "NodeReservation": Reservation,
    "ServingDeployment": Deployment,
}


def test_every_kind_has_odd_answers() -> None:
    assert RECORDS.keys() | {"GpuPod", "GpuCluster"} == EXAMPLES.keys()


@pytest.mark.parametrize("kind", RECORDS)
@settings(max_examples=20, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(st.data())
def test_every_other_kind_has_a_status_that_is_taken(kind: str, data: st.DataObject) -> None:
    example, row = EXAMPLES[kind], data.draw(told(RECORDS[kind]))
    try:
        seen = example.row(cast("dict[str, JsonValue]", row))
    except ValidationError:
        reject()  # such an answer is unreadable as a whole
    mapping = example.mapping()
    metadata: JsonValue = {"name": "train", "namespace": "team-a", "uid": "uid-1"}
    obj = mapping.model.model_validate({"metadata": metadata, "spec": {**example.spec}, "status": {"id": "one"}})
    status = mapping.status(obj, seen)
    assert list(problems(structural(type(status)), cast("JsonValue", dumped(status)))) == []


@settings(max_examples=60)
@given(told(ClusterDetail, replicas=REPLICAS), NUMBERS)
def test_every_cluster_has_a_status_that_is_taken(answer: dict[str, object], healthy: int) -> None:
    detail = ClusterDetail.model_validate(answer)
    summary = ClusterSummary.model_validate(detail.model_dump(by_alias=True) | {"activeReplicas": healthy})
    for seen in (SeenCluster(summary), SeenCluster(summary, detail)):
        assert refused(CLUSTERS.status(CLUSTER, seen)) == []
        facts: Facts[GpuClusterSpec, GpuClusterStatus, SeenCluster] = Facts(
            CLUSTERS, CLUSTER.key, CLUSTER, NOW, account(), View(), INTENT, seen
        )
        report = report_of(facts, Keep(), Nothing(), unreachable=False)
        assert report is not None
        assert refused(new_status(facts, Keep(), Nothing(), report, PACING)) == []


CUT: dict[str, tuple[type[Model], str, object, object]] = {
    "a text that is too long": (ReplicaStatus, "status", "x" * 65, "x" * 63 + "…"),
    "a text that just fits": (ReplicaStatus, "status", "x" * 64, "x" * 64),
    "an empty text where there must be one": (ReplicaStatus, "id", "", None),
    "a number below": (ReplicaStatus, "gpu_count", -1, None),
    "a number beyond": (ReplicaStatus, "gpu_count", 2**64, 2**63 - 1),
    "a number beyond a bound of its own": (GpuClusterStatus, "replicas", 2**40, 2**31 - 1),
    "a truth": (ReplicaStatus, "healthy", True, True),
    "nothing": (ReplicaStatus, "gpu_count", None, None),
}


@pytest.mark.parametrize(("model", "name", "value", "expected"), CUT.values(), ids=CUT)
def test_a_value_is_cut(model: type[Model], name: str, value: object, expected: object) -> None:
    assert fit_schema(model, {name: value}) == {name: expected}


@pytest.mark.parametrize("text", [None, "", "yesterday", *MOMENTS])
def test_what_is_no_moment_is_absent(text: str | None) -> None:
    assert moment(text) is None


def test_a_moment_is_read_in_its_time_zone() -> None:
    assert moment("2026-03-01T14:00:00+02:00") == NOW
    assert moment("2026-03-01T12:00:01Z") == NOW + timedelta(seconds=1)
