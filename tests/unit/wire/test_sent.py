"""Request bodies: every bound of section 2, at the edge and one beyond."""

from typing import Any

import pytest
from pydantic import ValidationError

from relay_wire.account import Bootstrap, ProfileUpdate
from relay_wire.api_keys import ApiKeyCreate
from relay_wire.base import Sent
from relay_wire.billing import AutoRechargeUpdate, DepositRequest
from relay_wire.clusters import ClusterCreate, ClusterScale
from relay_wire.orgs import MemberAdd, MemberUpdate, OrganizationCreate, OrganizationUpdate
from relay_wire.pods import PodCreate
from relay_wire.reservations import ReservationCreate
from relay_wire.ssh_keys import SshKeyCreate
from relay_wire.vms import Visibility, VmCreate
from relay_wire.webhooks import WebhookCreate, WebhookToggle

POD = {"image": "busybox"}
RECHARGE = {"enabled": True, "thresholdCents": 500, "amountCents": 2000}
MINIMAL: dict[type[Sent], dict[str, Any]] = {
    PodCreate: POD,
    VmCreate: {"name": "box"},
    ClusterCreate: {"name": "llm"},
    ClusterScale: {"replicaCount": 1},
    Visibility: {"public": True},
    AutoRechargeUpdate: RECHARGE,
    DepositRequest: {"amountCents": 1000},
    SshKeyCreate: {"name": "k", "publicKey": "ssh-ed25519 AAAA"},
    ReservationCreate: {"unitIds": ["node-gpu0"], "allowedOrgIds": []},
    WebhookCreate: {"name": "w", "url": "https://x.example"},
    WebhookToggle: {},
    ApiKeyCreate: {"name": "k"},
    Bootstrap: {},
    ProfileUpdate: {},
    OrganizationCreate: {"name": "Acme"},
    MemberAdd: {"email": "a@b.example", "role": "viewer"},
    MemberUpdate: {"role": "owner"},
}

BOUNDS = [
    (PodCreate, "gpuCount", [1, 8], [0, 9, -1]),
    (PodCreate, "volumeGb", [10, 1024], [9, 1025]),
    (PodCreate, "shmSizeGb", [1, 8192], [0, 8193]),
    (PodCreate, "computeClass", ["on_demand", "reserved", "interruptible"], ["spot", "", "ON_DEMAND"]),
    (PodCreate, "httpPort", [1, 65535], [0, 65536]),
    (PodCreate, "name", ["a", "x" * 63, "é ü"], ["", "x" * 64, "a\nb"]),
    (PodCreate, "image", ["a"], [""]),
    (AutoRechargeUpdate, "amountCents", [1000, 50000], [999, 50001]),
    (AutoRechargeUpdate, "thresholdCents", [0, 10**12], []),
    (DepositRequest, "amountCents", [1000, 50000], [999, 50001]),
    (DepositRequest, "idempotencyKey", ["x", "x" * 255], ["", "x" * 256]),
    (
        VmCreate,
        "cloudInit",
        ["#!/bin/sh", "#!" + "x" * 16382],
        ["#!" + "x" * 16383, "#cloud-config\n", "", " #!/bin/sh"],
    ),
    (VmCreate, "containerPort", [1, 65535], [0, 65536]),
    (VmCreate, "healthCheckPort", [1, 65535], [0, 65536]),
    (ClusterCreate, "replicaCount", [1, 100], [0, -1]),
    (ClusterCreate, "containerPort", [1, 65535], [0, 65536]),
    (ClusterScale, "replicaCount", [1, 100], [0, -1]),
    (ReservationCreate, "unitIds", [["a"]], [[]]),
    (ReservationCreate, "contractRef", ["", "x" * 1000], ["x" * 1001, "a\nb"]),
    (MemberAdd, "role", ["admin", "member", "viewer"], ["owner", "", "ADMIN"]),
    (MemberUpdate, "role", ["owner", "admin", "member", "viewer"], ["", "king"]),
]


@pytest.mark.parametrize(
    ("model", "field", "good", "bad"), BOUNDS, ids=[f"{row[0].__name__}.{row[1]}" for row in BOUNDS]
)
def test_a_bound_is_where_the_specification_has_it(
    model: type[Sent], field: str, good: list[object], bad: list[object]
) -> None:
    for value in good:
        assert model.model_validate(MINIMAL[model] | {field: value}).model_dump()[field] == value
    for value in bad:
        with pytest.raises(ValidationError):
            model.model_validate(MINIMAL[model] | {field: value})


def test_a_pod_gets_the_defaults_of_the_specification() -> None:
    pod = PodCreate.model_validate(POD)
    assert pod.model_dump(exclude_none=True) == {
        "image": "busybox",
        "gpuCount": 1,
        "computeClass": "on_demand",
        "httpPort": 80,
        "public": False,
        "volumeGb": 50,
    }


@pytest.mark.parametrize(("model", "body"), MINIMAL.items(), ids=[model.__name__ for model in MINIMAL])
def test_null_in_an_optional_field_is_the_same_as_absent(model: type[Sent], body: dict[str, Any]) -> None:
    everything = {field.alias: None for field in model.model_fields.values()}
    assert model.model_validate(everything | body) == model.model_validate(body)


@pytest.mark.parametrize(("model", "body"), MINIMAL.items(), ids=[model.__name__ for model in MINIMAL])
def test_a_required_field_is_required_and_null_does_not_count(model: type[Sent], body: dict[str, Any]) -> None:
    for name in body:
        for broken in ({key: value for key, value in body.items() if key != name}, body | {name: None}):
            with pytest.raises(ValidationError, match="Field required"):
                model.model_validate(broken)


@pytest.mark.parametrize(("model", "body"), MINIMAL.items(), ids=[model.__name__ for model in MINIMAL])
def test_an_unknown_field_is_refused_and_can_be_overlooked(model: type[Sent], body: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="not permitted"):
        model.model_validate(body | {"surprise": 1})
    assert model.model_validate(body | {"surprise": 1}, extra="ignore") == model.model_validate(body)


@pytest.mark.parametrize(("model", "body"), MINIMAL.items(), ids=[model.__name__ for model in MINIMAL])
def test_what_is_sent_reads_back_the_same(model: type[Sent], body: dict[str, Any]) -> None:
    sent = model.model_validate(body)
    assert model.model_validate_json(sent.model_dump_json(exclude_none=True), by_name=False, by_alias=True) == sent


@pytest.mark.parametrize(
    "wrong",
    [
        {"gpuCount": "1"},
        {"gpuCount": 1.0},
        {"gpuCount": True},
        {"public": "true"},
        {"public": 1},
        {"image": 7},
        {"envVars": {"A": 1}},
        {"envVars": {"A": None}},
        {"envVars": [["A", "b"]]},
        {"sshKeys": "ssh-ed25519 AAAA"},
        {"sshKeys": [None]},
    ],
)
def test_a_value_of_the_wrong_type_is_not_converted(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        PodCreate.model_validate(POD | wrong)


def test_a_refusal_does_not_repeat_what_was_given() -> None:
    with pytest.raises(ValidationError) as caught:
        PodCreate.model_validate(POD | {"envVars": {"TOKEN": 12345678}, "name": "canary" * 20})
    assert "canary" not in str(caught.value)
    assert "12345678" not in str(caught.value)


# Transcribed from section 2; `!` marks what is required.
FIELDS = {
    PodCreate: "image! name gpuModelId gpuCount computeClass httpPort public envVars sshKeys shmSizeGb volumeGb",
    VmCreate: "name! gpuModelId gpuCount resourceSize tier imageUrl containerPort containerCommand envVars diskSizeGb "
    "healthCheckPath healthCheckPort healthChecks preferredRegions allowFallback privileged kernelModules "
    "registryCredentialId templateId sshKeyIds public nodeId cloudInit",
    ClusterCreate: "name! resourceSize tier replicaCount gpuModelId gpusPerReplica imageUrl containerPort "
    "preferredRegions allowFallback envVars registryCredentialId healthChecks healthCheckPath healthCheckPort "
    "diskSizeGb containerCommand privileged kernelModules templateId",
    ClusterScale: "replicaCount!",
    AutoRechargeUpdate: "enabled! thresholdCents! amountCents!",
    DepositRequest: "amountCents! idempotencyKey",
    WebhookCreate: "name! url! events",
    SshKeyCreate: "name! publicKey!",
    ApiKeyCreate: "name! scopes expiresInSeconds",
    Bootstrap: "orgName",
    ProfileUpdate: "fullName avatarUrl defaultOrganizationId",
    OrganizationCreate: "name! slug billingEmail",
    OrganizationUpdate: "name billingEmail monthlySpendLimitCents",
    MemberAdd: "email! role!",
    MemberUpdate: "role!",
}


@pytest.mark.parametrize(("model", "fields"), FIELDS.items(), ids=[model.__name__ for model in FIELDS])
def test_a_body_has_the_fields_of_the_specification(model: type[Sent], fields: str) -> None:
    assert {f"{field.alias}{'!' if field.is_required() else ''}" for field in model.model_fields.values()} == set(
        fields.split()
    )
