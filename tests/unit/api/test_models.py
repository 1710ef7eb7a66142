"""What users write, read and written by the operator."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from pydantic import JsonValue, ValidationError

from relay_operator.api.cloudaccount import CloudAccount, ClusterCloudAccount, OrganizationSpec
from relay_operator.api.conditions import Condition, ConditionType, Reason
from relay_operator.api.meta import CreateIntent, MalformedIntent, ObjectKey
from relay_operator.api.nodereservation import NodeReservationSpec
from relay_operator.api.parts import Gpu, PodGpu
from relay_operator.api.reasons import REASONS, TYPES
from relay_operator.api.references import AccountKind, AccountRef
from relay_operator.engine.account import sent_with
from relay_operator.kinds.gpucluster import GpuCluster, GpuClusterSpec
from relay_operator.kinds.gpupod import ComputeClass, GpuPod, GpuPodSpec
from relay_operator.kinds.gpuvm import GpuVmSpec
from relay_wire.clusters import ClusterCreate
from relay_wire.pods import PodCreate
from relay_wire.vms import VmCreate

NOON = datetime(2026, 11, 21, 12, 0, 0, 123456, tzinfo=UTC)
INTENT = CreateIntent(token="t-1", name="ns-trainer-0123456789", attempt=1, spec_hash="abc", started_at=NOON)

RENAMED = {
    "name": None,  # derived from the object
    "gpuModelId": "gpu",
    "gpuCount": "gpu",
    "gpusPerReplica": "gpu",
    "envVars": "env",
    "imageUrl": "image",
    "replicaCount": "replicas",
    "sshKeyIds": "sshKeyRefs",
}
"""Fields of a create request that are called otherwise in a spec."""


def test_an_intent_survives_the_annotation() -> None:
    read = CreateIntent.parse(INTENT.to_annotation())
    assert read == INTENT.model_copy(update={"started_at": NOON.replace(microsecond=0)})
    assert set(json.loads(INTENT.to_annotation())) == {"token", "name", "attempt", "specHash", "startedAt"}


@pytest.mark.parametrize("text", [None, ""])
def test_no_annotation_is_no_intent(text: str | None) -> None:
    assert CreateIntent.parse(text) is None


@pytest.mark.parametrize("text", ["{", "[]", "null", '{"token": ""}', '{"token": "s3cret", "attempt": 0}'])
def test_a_malformed_intent_is_an_error_and_not_the_absence_of_one(text: str) -> None:
    read = CreateIntent.parse(text)
    assert isinstance(read, MalformedIntent)
    assert "gpurelay.dev/create-intent" in str(read)
    assert "s3cret" not in str(read)


ODD: dict[str, tuple[str, JsonValue]] = {
    "before the year 1 in UTC": ("startedAt", "0001-01-01T00:00:00+10:00"),
    "after the year 9999 in UTC": ("startedAt", "9999-12-31T23:00:00-10:00"),
    "more attempts than names can tell": ("attempt", 999_999),
    "an attempt of eighty digits": ("attempt", 10**79),
    "an account whose name no object can have": ("account", "CloudAccount/Bad_Name"),
    "an account with a path for a name": ("account", "CloudAccount/../x"),
    "an account with two names": ("account", "ClusterCloudAccount/a/b"),
    "an account with a name that is too long": ("account", f"CloudAccount/{'a' * 254}"),
    "an account without a name": ("account", "CloudAccount/"),
}


@pytest.mark.parametrize(("field", "value"), ODD.values(), ids=ODD)
def test_an_intent_that_nothing_can_follow_is_malformed(field: str, value: JsonValue) -> None:
    read = CreateIntent.parse(json.dumps(json.loads(INTENT.to_annotation()) | {field: value}))
    assert isinstance(read, MalformedIntent)
    assert f"cannot be read: {field}: " in str(read)


@pytest.mark.parametrize("name", ["a", "a-1.b", "a" * 253])
@pytest.mark.parametrize("kind", AccountKind)
def test_an_intent_names_any_account_that_can_exist(kind: AccountKind, name: str) -> None:
    read = CreateIntent.parse(INTENT.model_copy(update={"account": f"{kind}/{name}"}).to_annotation())
    assert isinstance(read, CreateIntent)
    assert sent_with(read) == AccountRef(kind=kind, name=name)


def test_a_moment_of_a_spec_has_a_year_in_utc() -> None:
    with pytest.raises(ValidationError, match="within the years 1 to 9999"):
        NodeReservationSpec.model_validate({"startsAt": "0001-01-01T00:00:00+10:00"})


@pytest.mark.parametrize(("field", "text"), [("name", "Team\u202eA"), ("billingEmail", "bills\u200b@example.com")])
def test_what_is_kept_of_an_organization_is_what_its_request_can_say(field: str, text: str) -> None:
    with pytest.raises(ValidationError, match="printable characters"):
        OrganizationSpec.model_validate({field: text})


def test_moments_are_written_as_kubernetes_writes_them() -> None:
    berlin = datetime(2026, 11, 21, 13, 0, 0, 999999, tzinfo=timezone(timedelta(hours=1)))
    condition = Condition(type="Ready", status="True", reason=Reason.RUNNING, last_transition_time=berlin)
    assert condition.model_dump(mode="json")["lastTransitionTime"] == "2026-11-21T12:00:00Z"


def test_fields_of_a_newer_crd_are_ignored() -> None:
    pod = GpuPod.model_validate(
        {
            "metadata": {"name": "a", "managedFields": []},
            "spec": {"image": "x", "shiny": {"new": 1}},
            "status": {"shiny": True},
        }
    )
    assert pod.spec.image == "x"
    assert pod.status.observed_generation == -1
    assert pod.key == ObjectKey("GpuPod", "", "a")


def test_every_kind_knows_its_name_and_reads_its_smallest_object() -> None:
    secret = {"name": "relay-api-key", "key": "api-key"}
    smallest: dict[type[GpuPod | GpuCluster | CloudAccount | ClusterCloudAccount], dict[str, object]] = {
        GpuPod: {"image": "x"},
        GpuCluster: {"replicas": 1},
        CloudAccount: {"apiKeySecretRef": secret},
        ClusterCloudAccount: {"apiKeySecretRef": {**secret, "namespace": "relay"}, "allowedNamespaces": {}},
    }
    for kind, spec in smallest.items():
        read = kind.model_validate({"metadata": {"name": "a"}, "spec": spec})
        assert read.kind == kind.__name__
        assert read.status.conditions == []


@pytest.mark.parametrize(
    ("gpu", "candidates"),
    [(Gpu(), ()), (Gpu(model_id="h100"), ("h100",)), (Gpu(model_ids=["h100", "a100"]), ("h100", "a100"))],
)
def test_models_are_tried_in_the_order_they_are_written(gpu: Gpu, candidates: tuple[str, ...]) -> None:
    assert gpu.candidates == candidates


def test_plain_environment_values_appear_in_no_representation_and_no_error() -> None:
    spec = GpuPodSpec.model_validate({"image": "x", "env": [{"name": "TOKEN", "value": "s3cret"}]})
    assert "s3cret" not in repr(spec)
    with pytest.raises(ValidationError) as refused:
        GpuPodSpec.model_validate({"image": "x", "env": [{"name": "TOKEN", "value": ["s3cret"]}]})
    assert "s3cret" not in str(refused.value)


def test_every_type_and_reason_is_explained() -> None:
    assert set(TYPES) == set(ConditionType)
    assert set(REASONS) == set(Reason)
    assert all(doc.appears.endswith(".") for doc in REASONS.values())


def test_reasons_fit_the_schema_of_conditions() -> None:
    refused = [text for text in (*Reason, "not one word", "") if not fits_a_condition(text)]
    assert refused == ["not one word", ""]


def fits_a_condition(reason: str) -> bool:
    try:
        Condition(type="Ready", status="False", reason=reason, last_transition_time=NOON)
    except ValidationError:
        return False
    return True


@pytest.mark.parametrize(
    ("spec", "request_body"), [(GpuPodSpec, PodCreate), (GpuVmSpec, VmCreate), (GpuClusterSpec, ClusterCreate)]
)
def test_a_spec_offers_every_field_of_the_create_request(
    spec: type[GpuPodSpec | GpuVmSpec | GpuClusterSpec], request_body: type[PodCreate | VmCreate | ClusterCreate]
) -> None:
    offered = set(spec.model_json_schema()["properties"])
    wanted = {RENAMED.get(name, name) for name in request_body.model_json_schema()["properties"]} - {None}
    assert wanted <= offered


def test_what_the_spec_allows_the_wire_can_carry() -> None:
    for value in (1, 8):
        assert PodGpu(count=value).count == PodCreate(image="x", gpu_count=value).gpu_count
    for bad in (0, 9):
        with pytest.raises(ValidationError):
            PodGpu(count=bad)
    assert {one.value for one in ComputeClass} == {"OnDemand", "Reserved"}


def test_a_vm_has_as_many_gpus_as_a_machine() -> None:
    assert GpuVmSpec.model_validate({"image": "x", "gpu": {"count": 16}}).gpu == Gpu(count=16)
    with pytest.raises(ValidationError):
        Gpu(count=17)
