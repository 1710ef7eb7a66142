"""Answers: what must be there, what may be missing, and what must not matter."""

import contextlib
import json
from collections.abc import Iterator
from typing import Annotated, Any, cast, get_args

import pytest
from pydantic import TypeAdapter, ValidationError, model_validator
from pydantic_core import from_json

from relay_client import OPERATIONS
from relay_wire.account import Joined, Me, Membership, User, Whoami
from relay_wire.api_keys import ApiKeyCreated, ApiKeyList, ApiKeySummary
from relay_wire.base import Lenient, LenientListOf, Received
from relay_wire.billing import AutoRecharge, Balance, CurrentUsage
from relay_wire.catalog import ClassAvailability, CpuPrice, GpuAvailability, GpuModelList, Pricing
from relay_wire.clusters import ClusterDetail, ClusterPage, ClusterSummary, Replica
from relay_wire.errors import ErrorBody, InferenceErrorBody
from relay_wire.events import Event
from relay_wire.pods import PodCapacity
from relay_wire.provider import ProvisioningTokenCreated
from relay_wire.vms import CreatedResource, VmRecord
from relay_wire.webhooks import RolledSecret, Webhook, WebhookCreated

# Transcribed from section 2; `!` marks what an answer cannot do without.
FIELDS: dict[type[Received], str] = {
    Whoami: "principalType! organizationId! organizationName scopes",
    Me: "user! memberships",
    User: "id! email fullName avatarUrl defaultOrganizationId",
    Membership: "organizationId! role! name",
    Joined: "organizationId! role!",
    Balance: "balanceCents! availableCents! accruedUsageCents! currentMonthUsageCents! minDepositCents "
    "monthlySpendLimitCents transactions!",
    CurrentUsage: "usageCents! usageHours! breakdown! burnPerHourCents autoStopFloorCents projectedRunwayHours",
    AutoRecharge: "enabled! thresholdCents! amountCents!",
    CpuPrice: "resourceSize! pricePerHourCents vcpu! ramMb!",
    ClassAvailability: "totalGpus! freeGpus! maxPlaceableGpus! placeableGpuCounts spotFreeGpus spotPlaceableGpuCounts "
    "reservedFreeGpus tileLattice nodes",
    VmRecord: "id! organizationId name status statusReason gpuModelId gpuCount endpointUrl volumeGb public createdAt "
    "provisioningStage resourceSize tier diskSizeGb gpuModelName pricePerHourCents serviceType managedBy "
    "capabilityTier computeClass imageUrl",
    CreatedResource: "id! name status",
    ClusterSummary: "id! organizationId! name! status! activeReplicas replicaCount endpointUrl gpuModelId createdAt",
    ClusterDetail: "id! organizationId! name! status! gpusPerReplica! resourceSize! replicaCount! tier! allowFallback! "
    "diskSizeGb! privileged! replicas! createdAt! updatedAt! statusReason deployToken endpointUrl envVars gpuModel "
    "gpuModelId healthCheckPath healthCheckPort healthChecks imageUrl notes preferredRegions containerPort",
    Replica: "id! gpuCount! status! healthy! nvlinkEnabled! createdAt! consecutiveFailures diskTotalBytes "
    "diskUsedBytes diskUpdatedAt endpointUrl internalIp lastHealthCheckAt nodeHostname nodeId nodeLocation "
    "nodeRegion port sshPort startedAt",
    ClusterPage: "items! nextCursor",
    Webhook: "id! name url secretPrefix events enabled createdAt",
    WebhookCreated: "id! name url secretPrefix events enabled createdAt secret!",
    ApiKeySummary: "id! name! keyPrefix! scopes! createdAt! expiresAt lastUsedAt revokedAt",
    ApiKeyCreated: "id! key! keyPrefix! name! scopes! createdAt! organizationId!",
    ErrorBody: "error code",
    Event: "id! type! created_at data",
}


@pytest.mark.parametrize(("model", "fields"), FIELDS.items(), ids=[model.__name__ for model in FIELDS])
def test_an_answer_has_the_fields_of_the_specification(model: type[Received], fields: str) -> None:
    assert {f"{field.alias}{'!' if field.is_required() else ''}" for field in model.model_fields.values()} == set(
        fields.split()
    )


DETAIL: dict[str, Any] = {
    "id": "cl_1",
    "organizationId": "org_1",
    "name": "llm",
    "status": "running",
    "gpusPerReplica": 1,
    "resourceSize": "gpu",
    "replicaCount": 2,
    "tier": "standard",
    "allowFallback": False,
    "diskSizeGb": 50,
    "privileged": False,
    "replicas": [],
    "createdAt": "2026-11-21T00:00:00Z",
    "updatedAt": "2026-11-21T00:00:00Z",
}
RECHARGE: dict[str, Any] = {"enabled": True, "thresholdCents": 1, "amountCents": 1}
ODD: list[object] = [None, "odd", -1.5, [], {}, [None], {"odd": None}]


def optional(model: type[Received]) -> list[str]:
    return [str(field.alias) for field in model.model_fields.values() if not field.is_required()]


@pytest.mark.parametrize("odd", ODD, ids=repr)
@pytest.mark.parametrize(
    ("model", "least", "strings"),
    [(VmRecord, {"id": "pod_1"}, ["name", "status"]), (ClusterDetail, DETAIL, [])],
    ids=["VmRecord", "ClusterDetail"],
)
def test_no_optional_field_makes_a_workload_unreadable(
    model: type[Received], least: dict[str, Any], strings: list[str], odd: object
) -> None:
    names = [name for name in optional(model) if name not in strings]
    assert model.model_validate_json(json.dumps(least | dict.fromkeys(names, odd)))


def test_a_value_that_is_not_what_it_should_be_reads_as_absent() -> None:
    record = VmRecord.model_validate_json('{"id":"vm_1","gpuCount":"many","pricePerHourCents":2.5,"public":"perhaps"}')
    assert (record.gpu_count, record.price_per_hour_cents, record.public) == (None, None, None)


HUGE = 10**4299
BOUNDED: dict[str, tuple[type[Received], dict[str, Any], str, dict[int, int | None]]] = {
    "a count": (VmRecord, {"id": "vm_1"}, "gpuCount", {2**31 - 1: 2**31 - 1, 2**31: None, -1: None, HUGE: None}),
    "a count that must be": (ClusterDetail, DETAIL, "replicaCount", {-3: 0, 2**31: 2**31 - 1, HUGE: 2**31 - 1}),
    "a price": (VmRecord, {"id": "vm_1"}, "pricePerHourCents", {10**15: 10**15, 10**15 + 1: None, -1: None}),
    "money": (AutoRecharge, RECHARGE, "amountCents", {-5: -5, -HUGE: -(10**30), HUGE: 10**30}),
}


@pytest.mark.parametrize(("model", "least", "name", "numbers"), BOUNDED.values(), ids=BOUNDED)
def test_a_number_beyond_its_bounds_is_absent_or_the_nearest(
    model: type[Received], least: dict[str, Any], name: str, numbers: dict[int, int | None]
) -> None:
    for told, read in numbers.items():
        assert model.model_validate(from_json(json.dumps(least | {name: told}))).model_dump()[name] == read


def models(annotation: object) -> Iterator[type[Received]]:
    """Every model in an annotation, and in the fields of these."""
    if isinstance(annotation, type) and issubclass(annotation, Received):
        yield annotation
        for field in annotation.model_fields.values():
            yield from models(field.annotation)
    for part in get_args(annotation):
        yield from models(part)


def numbers_in(value: object) -> Iterator[int]:
    match value:
        case int():
            yield value
        case list():
            for each in value:
                yield from numbers_in(each)


ANSWERED = dict.fromkeys(model for row in OPERATIONS for model in models(row.result))


@pytest.mark.parametrize("model", ANSWERED, ids=lambda model: model.__name__)
def test_no_number_of_an_answer_is_larger_than_sums_and_products_of_it_can_be_written(model: type[Received]) -> None:
    for name, field in model.model_fields.items():
        typed: TypeAdapter[object] = TypeAdapter(cast("Any", Annotated[field.annotation, None, *field.metadata]))
        for told in (HUGE, -HUGE, [HUGE]):
            with contextlib.suppress(ValidationError):
                assert all(abs(number) <= 10**30 for number in numbers_in(typed.validate_python(told))), name


def test_a_status_that_nobody_knows_is_kept_as_it_is() -> None:
    assert VmRecord.model_validate({"id": "x", "status": "Warming-Up"}).status == "Warming-Up"


def test_an_id_that_looks_like_a_number_is_a_string() -> None:
    assert CreatedResource.model_validate_json('{"id":42}').id == "42"


@pytest.mark.parametrize("id_", ["", None, [], {}])
def test_an_answer_without_an_id_is_not_read(id_: object) -> None:
    with pytest.raises(ValidationError):
        CreatedResource.model_validate({"id": id_})


def test_a_required_field_of_the_detail_is_required() -> None:
    for name in DETAIL:
        with pytest.raises(ValidationError):
            ClusterDetail.model_validate({key: value for key, value in DETAIL.items() if key != name})


def test_null_is_an_empty_list() -> None:
    assert ClusterPage.model_validate({"items": None}).items == []
    assert Whoami.model_validate({"principalType": "api_key", "organizationId": "o", "scopes": None}).scopes == []
    assert ClusterDetail.model_validate(DETAIL | {"replicas": None}).replicas == []


@pytest.mark.parametrize("odd", [{"gpu": 5}, "none", 5, [5]], ids=repr)
def test_a_breakdown_of_an_unknown_shape_is_unknown_and_hides_no_other_figure(odd: object) -> None:
    usage = {"usageCents": 7, "usageHours": 1.5, "burnPerHourCents": 249}
    read = CurrentUsage.model_validate(usage | {"breakdown": odd})
    assert (read.burn_per_hour_cents, read.breakdown) == (249, None)
    assert CurrentUsage.model_validate(usage | {"breakdown": None}).breakdown == []


@pytest.mark.parametrize("odd", [None, "free", 2.5, -1], ids=repr)
def test_an_odd_price_is_unknown_and_takes_no_other_away(odd: object) -> None:
    gpu = [{"gpuModelId": "h100", "pricePerHourCents": 0}, {"gpuModelId": "b200", "pricePerHourCents": odd}]
    cpu = [{"resourceSize": "small", "pricePerHourCents": price, "vcpu": 1, "ramMb": 1} for price in (5, odd)]
    read = Pricing.model_validate({"gpu": gpu, "cpu": cpu})
    assert [row.price_per_hour_cents for row in read.gpu] == [0, None]
    assert [row.price_per_hour_cents for row in read.cpu] == [5, None]


def test_a_list_may_come_bare_or_as_items() -> None:
    assert GpuModelList.model_validate([{"id": "h100"}]) == GpuModelList.model_validate({"items": [{"id": "h100"}]})
    key = {"id": "k", "name": "n", "keyPrefix": "or_", "scopes": [], "createdAt": "2026-11-21T00:00:00Z"}
    assert ApiKeyList.model_validate_json(json.dumps([key])).items[0].key_prefix == "or_"


def test_money_is_whole_cents() -> None:
    balance = {
        "balanceCents": 100000,
        "availableCents": -3,
        "accruedUsageCents": 7,
        "currentMonthUsageCents": 7,
        "minDepositCents": 1000,
        "monthlySpendLimitCents": None,
        "transactions": [{"id": "t", "type": "usage", "amountCents": -5}],
    }
    read = Balance.model_validate(balance)
    assert (read.available_cents, read.monthly_spend_limit_cents, read.transactions[0].amount_cents) == (-3, None, -5)
    with pytest.raises(ValidationError):
        Balance.model_validate(balance | {"balanceCents": 0.5})


def test_availability_pricing_and_capacity_are_read() -> None:
    mode = {"totalGpus": 16, "freeGpus": 8, "maxPlaceableGpus": 8, "placeableGpuCounts": [1, 2, 4, 8], "nodes": []}
    available = GpuAvailability.model_validate(
        {"gpuModelId": "h100", "vm": mode, "cluster": mode | {"spotFreeGpus": 2}}
    )
    assert available.vm is not None
    assert available.cluster is not None
    assert (available.vm.max_placeable_gpus, available.vm.spot_free_gpus, available.cluster.spot_free_gpus) == (
        8,
        None,
        2,
    )
    prices = {"gpu": [{"gpuModelId": "h100", "pricePerHourCents": 250}], "cpu": None}
    assert Pricing.model_validate(prices).gpu[0].price_per_hour_cents == 250
    capacity = PodCapacity.model_validate({"gpuModelId": "h100", "freeUnits": 8, "maxGpuCount": 4})
    assert (capacity.free_units, capacity.max_gpu_count) == (8, 4)


def test_secrets_are_not_shown() -> None:
    detail = ClusterDetail.model_validate(DETAIL | {"deployToken": "canary", "envVars": {"A": "canary"}})
    assert detail.deploy_token == "canary"
    assert "canary" not in repr(detail)


def test_a_deploy_token_that_is_too_long_is_absent_and_never_cut() -> None:
    longest = "x" * 4096
    assert ClusterDetail.model_validate(DETAIL | {"deployToken": longest}).deploy_token == longest
    assert ClusterDetail.model_validate(DETAIL | {"deployToken": f"{longest}x"}).deploy_token is None


@pytest.mark.parametrize(
    ("model", "answer"),
    [(ClusterPage, {"items": [[]] * 3}), (Whoami, {"principalType": "", "organizationId": "o", "scopes": [[]] * 3})],
)
def test_only_the_first_wrong_item_of_a_list_is_reported(model: type[Received], answer: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as refused:
        model.model_validate_json(json.dumps(answer))
    assert refused.value.error_count() == 1


class Spied(Received):
    """Counts how many of its kind were read."""

    @model_validator(mode="before")
    @classmethod
    def _count(cls, data: object) -> object:
        READ.append(data)
        return data


READ: list[object] = []


class Tolerant(Received):
    """Has lists and a dict that may be of another shape."""

    usage: LenientListOf[Spied]
    listed: Lenient[list[Spied]] = None
    named: Lenient[dict[str, Spied]] = None


@pytest.mark.parametrize("wrong", ["usage", "listed", "named"])
def test_the_first_wrong_item_decides_that_a_tolerated_list_is_unknown(wrong: str) -> None:
    items = [{}, "odd", {}, "odd"]
    odd = dict(zip("abcd", items, strict=True)) if wrong == "named" else items
    READ.clear()
    told = Tolerant.model_validate_json(json.dumps({"usage": [], "listed": [{}], "named": {"a": {}}, wrong: odd}))
    unread = told.model_dump()[wrong]
    assert (unread, READ.count("odd")) == (None, 1)


def test_both_error_bodies_are_read() -> None:
    assert ErrorBody.model_validate_json('{"error":"gone","code":"not_found","more":1}').code == "not_found"
    read = InferenceErrorBody.model_validate_json('{"error":{"message":"m","type":"api_error","code":null}}')
    assert (read.error.message, read.error.code) == ("m", None)


def test_answers_are_written_in_the_wires_spelling() -> None:
    assert '"gpuModelId":"h100"' in VmRecord(id="x", gpu_model_id="h100").model_dump_json()
    assert '"created_at":"t"' in Event(id="e", type="vm.running", created_at="t").model_dump_json()


@pytest.mark.parametrize(
    ("model", "field", "rest"),
    [
        (WebhookCreated, "secret", {"id": "wh_1"}),
        (RolledSecret, "secret", {}),
        (ProvisioningTokenCreated, "token", {"id": "pt_1"}),
        (
            ApiKeyCreated,
            "key",
            {"id": "k", "keyPrefix": "or_", "name": "n", "scopes": [], "createdAt": "", "organizationId": "o"},
        ),
    ],
)
def test_a_secret_that_is_shown_once_has_a_bound_and_is_not_shown_again(
    model: type[Received], field: str, rest: dict[str, object]
) -> None:
    assert "canary" not in repr(model.model_validate({**rest, field: "canary".ljust(4096, "x")}))
    for odd in ("", "x" * 4097):
        with pytest.raises(ValidationError):
            model.model_validate({**rest, field: odd})
