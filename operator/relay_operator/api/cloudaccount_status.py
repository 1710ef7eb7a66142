"""What the status of an account shows."""

from typing import Annotated

from pydantic import Field

from relay_operator.api.conditions import ObjectStatus
from relay_operator.api.meta import Model, Time
from relay_operator.api.schema import as_set, atomic, map_by

MAX_OWNERLESS = 64


class InUse(Model):
    """How many objects depend on the account."""

    gpu_pods: int = Field(0, ge=0, description="GpuPods.")
    gpu_clusters: int = Field(0, ge=0, description="GpuClusters.")
    inference_batches: int = Field(0, ge=0, description="InferenceBatches that are not finished.")
    gpu_vms: int = Field(0, ge=0, description="GpuVms.")
    ssh_keys: int = Field(0, ge=0, description="SshKeys.")
    registry_credentials: int = Field(0, ge=0, description="RegistryCredentials.")
    api_keys: int = Field(0, ge=0, description="ApiKeys.")
    organization_members: int = Field(0, ge=0, description="OrganizationMembers.")
    vm_snapshots: int = Field(0, ge=0, description="VmSnapshots.")
    runner_pools: int = Field(0, ge=0, description="RunnerPools.")
    provisioning_tokens: int = Field(0, ge=0, description="ProvisioningTokens.")
    provider_nodes: int = Field(0, ge=0, description="ProviderNodes.")
    inference_backends: int = Field(0, ge=0, description="InferenceBackends.")
    node_reservations: int = Field(0, ge=0, description="NodeReservations.")
    serving_deployments: int = Field(0, ge=0, description="ServingDeployments.")


class Ownerless(Model):
    """Something in the cloud that belongs to no object."""

    kind: str = Field(max_length=63, description="The kind that it would be an object of.")
    of: str | None = Field(None, max_length=320, description="Namespace and name of the object, if that is known.")
    id: str | None = Field(
        None, max_length=253, description="The cloud's identifier; absent while the operator searches for it."
    )
    name: str | None = Field(None, max_length=63, description="The name it has in the cloud.")
    since: Time | None = Field(None, description="When it lost its owner.")


MAX_SPENDERS = 256


class Spent(Model):
    """What one namespace, or one cost centre, spent."""

    name: str = Field(
        min_length=1,
        max_length=63,
        description="The namespace, or the value of the label gpurelay.dev/cost-center; `unattributed` is what is of "
        "none, `others` are those that spent least, if there are too many.",
    )
    cents: int = Field(ge=0, description="Month to date, in cents.")


class Spend(Model):
    """What the organization used this month, by the objects that used it; each list adds up to the whole."""

    since: Time = Field(description="The beginning of the month, in UTC.")
    observed_time: Time = Field(description="When the cloud reported it.")
    by_namespace: list[Spent] = Field(
        max_length=MAX_SPENDERS, json_schema_extra=map_by("name"), description="By the namespaces of the objects."
    )
    by_cost_center: list[Spent] = Field(
        max_length=MAX_SPENDERS,
        json_schema_extra=map_by("name"),
        description="By their label gpurelay.dev/cost-center.",
    )


class WebhookStatus(Model):
    """The subscription that the operator created."""

    id: str | None = Field(None, max_length=253, description="The cloud's identifier.")
    url: str | None = Field(None, max_length=2048, description="Where the cloud delivers.")
    secret_prefix: str | None = Field(None, max_length=64, description="First characters of the signing secret.")
    secret_name: str | None = Field(None, max_length=253, description="The Secret that keeps the signing secret.")


class AccountStatus(ObjectStatus):
    """What the cloud says about the account's organization."""

    organization_id: str | None = Field(None, max_length=253, description="The organization of the key.")
    endpoint: str | None = Field(
        None, max_length=16, description="Which cloud said so: a hash of the URL of its management API."
    )
    organization_name: str | None = Field(None, max_length=253, description="Its name.")
    scopes: list[Annotated[str, Field(max_length=64)]] | None = Field(
        None, max_length=64, json_schema_extra=as_set(), description="What the key may do."
    )
    balance_cents: int | None = Field(None, description="Deposits and credits less settled usage, in cents.")
    available_cents: int | None = Field(
        None, description="The balance left for new workloads, in cents; can be negative."
    )
    min_deposit_cents: int | None = Field(None, ge=0, description="The smallest deposit that the cloud takes now.")
    monthly_spend_limit_cents: int | None = Field(
        None, ge=0, description="What the organization may spend in a month; absent if it is unlimited."
    )
    burn_per_hour_cents: int | None = Field(
        None, ge=0, description="The cost per hour of everything that runs, in cents."
    )
    auto_stop_floor_cents: int | None = Field(
        None, description="Below this the cloud stops what runs, in cents of the available balance."
    )
    runway_hours: int | None = Field(
        None,
        ge=0,
        description="Whole hours until the available balance is at `autoStopFloorCents`; absent while nothing costs "
        "money.",
    )
    spend: Spend | None = Field(None, description="What was spent this month, and by whom, deleted objects included.")
    in_use: InUse | None = Field(None, description="Objects that depend on the account.")
    webhook: WebhookStatus | None = Field(None, description="The webhook subscription.")
    unclaimed: list[Ownerless] | None = Field(
        None,
        max_length=MAX_OWNERLESS,
        json_schema_extra=atomic(),
        description="Resources in the cloud whose object is gone or has another: the operator ends them.",
    )
    orphans: list[Ownerless] | None = Field(
        None,
        max_length=MAX_OWNERLESS,
        json_schema_extra=atomic(),
        description="Resources with a name of this cluster that belong to no object: see spec.orphans.",
    )
    kept: list[Ownerless] | None = Field(
        None,
        max_length=MAX_OWNERLESS,
        json_schema_extra=atomic(),
        description="What was left in the cloud on purpose, by deletionPolicy or the annotation abandon: it is never "
        "ended.",
    )
