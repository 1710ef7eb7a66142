"""Every operation of the cloud that this client can call, in one table (section 4).

`Operation` rows are values: `Cloud.call(CREATE_POD, PodCreate(...))`. A new call needs a wire model and a row.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeAlias, TypeVar

from relay_wire.account import Me, Whoami
from relay_wire.api_keys import ApiKeyCreate, ApiKeyCreated, ApiKeyList
from relay_wire.batches import Batch, BatchCreate, BatchList
from relay_wire.billing import (
    AutoRecharge,
    AutoRechargeUpdate,
    Balance,
    ChargeOutcome,
    CurrentUsage,
    DailyUsageList,
    DepositRequest,
)
from relay_wire.catalog import GpuAvailabilityList, GpuModelList, LocationList, Pricing, VmTemplateList
from relay_wire.clusters import ClusterCreate, ClusterDetail, ClusterPage, ClusterScale, ClusterSummary
from relay_wire.files import FileDeleted, FileList, FileObject
from relay_wire.inference import Backend, BackendCreate, BackendList, BackendUpdate
from relay_wire.orgs import Member, MemberAdd, MemberList, MemberUpdate, Organization, OrganizationUpdate
from relay_wire.pods import PodCapacityList, PodCreate
from relay_wire.provider import (
    NodeStatusUpdate,
    ProviderEarnings,
    ProviderNodeList,
    ProvisioningTokenCreate,
    ProvisioningTokenCreated,
    ProvisioningTokenList,
)
from relay_wire.registry_credentials import RegistryCredential, RegistryCredentialCreate, RegistryCredentialList
from relay_wire.reservations import Reservation, ReservationCreate, ReservationList
from relay_wire.runner_pools import RunnerPool, RunnerPoolCreate, RunnerPoolList
from relay_wire.serving import Deployment, DeploymentChange, DeploymentCreate, DeploymentPage
from relay_wire.snapshots import Snapshot, SnapshotCreate, SnapshotPage
from relay_wire.ssh_keys import SshKey, SshKeyAttach, SshKeyCreate, SshKeyList
from relay_wire.vms import CreatedResource, Visibility, VmCreate, VmPage, VmRecord
from relay_wire.webhooks import (
    RolledSecret,
    WebhookCreate,
    WebhookCreated,
    WebhookDeliveryList,
    WebhookList,
    WebhookToggle,
)

BodyT = TypeVar("BodyT")
ResultT_co = TypeVar("ResultT_co", covariant=True)

NOTHING: type[None] = type(None)
"""No request body, or an answer whose body does not matter."""


class Api(StrEnum):
    """The two halves of the cloud, each with its own URL and error body (section 1)."""

    MANAGEMENT = "management"
    INFERENCE = "inference"


@dataclass(frozen=True, slots=True)
class Operation(Generic[BodyT, ResultT_co]):
    """One operation: its request and its answer."""

    name: str
    method: str
    path: str
    """A template: the `Cloud` fills in `{orgId}`, the caller the rest."""
    body: type[BodyT]
    result: type[ResultT_co]
    """A model for JSON, or `str` for plain text, which is returned unchanged, control characters included."""
    repeatable: bool = False
    """Whether sending it twice has the same effect as once, so that it may be retried in place."""
    assumed: bool = False
    """Whether the specification lacks its path or method; `interpretations.md` says what is assumed."""
    priority: bool = False
    """Whether it stops billing, so that it may use the rate limiter's reserve."""
    api: Api = Api.MANAGEMENT
    streamed: bool = False
    """Whether its body or result is a file: then use `Cloud.upload` or `Cloud.download`, not `Cloud.call`."""


AnyOperation: TypeAlias = Operation[Any, object]

WHOAMI = Operation("whoami", "GET", "/v1/whoami", NOTHING, Whoami, repeatable=True)
GET_ME = Operation("get_me", "GET", "/v1/me", NOTHING, Me, repeatable=True)

LIST_GPU_MODELS = Operation("list_gpu_models", "GET", "/v1/gpu-models", NOTHING, GpuModelList, repeatable=True)
GET_GPU_AVAILABILITY = Operation(
    "get_gpu_availability", "GET", "/v1/gpu-availability", NOTHING, GpuAvailabilityList, repeatable=True
)
GET_PRICING = Operation("get_pricing", "GET", "/v1/pricing", NOTHING, Pricing, repeatable=True)
LIST_LOCATIONS = Operation("list_locations", "GET", "/v1/locations", NOTHING, LocationList, repeatable=True)
LIST_VM_TEMPLATES = Operation("list_vm_templates", "GET", "/v1/vm-templates", NOTHING, VmTemplateList, repeatable=True)

GET_BALANCE = Operation("get_balance", "GET", "/v1/orgs/{orgId}/billing/balance", NOTHING, Balance, repeatable=True)
GET_CURRENT_USAGE = Operation(
    "get_current_usage", "GET", "/v1/orgs/{orgId}/billing/usage", NOTHING, CurrentUsage, repeatable=True, assumed=True
)
LIST_DAILY_USAGE = Operation(
    "list_daily_usage",
    "GET",
    "/v1/orgs/{orgId}/billing/usage/daily",
    NOTHING,
    DailyUsageList,
    repeatable=True,
    assumed=True,
)
CREATE_DEPOSIT = Operation("create_deposit", "POST", "/v1/orgs/{orgId}/billing/deposit", DepositRequest, ChargeOutcome)
GET_AUTO_RECHARGE = Operation(
    "get_auto_recharge", "GET", "/v1/orgs/{orgId}/billing/auto-recharge", NOTHING, AutoRecharge, repeatable=True
)
PUT_AUTO_RECHARGE = Operation(
    "put_auto_recharge",
    "PUT",
    "/v1/orgs/{orgId}/billing/auto-recharge",
    AutoRechargeUpdate,
    AutoRecharge,
    repeatable=True,
)

CREATE_POD = Operation("create_pod", "POST", "/v1/pods", PodCreate, VmRecord)
GET_POD_CAPACITY = Operation("get_pod_capacity", "GET", "/v1/pods/capacity", NOTHING, PodCapacityList, repeatable=True)

# Pods are read and changed through the VM paths (assumed).
CREATE_VM = Operation("create_vm", "POST", "/v1/orgs/{orgId}/vms/create", VmCreate, CreatedResource)
GET_VM = Operation("get_vm", "GET", "/v1/vms/{id}", NOTHING, VmRecord, repeatable=True)
GET_VM_LOGS = Operation("get_vm_logs", "GET", "/v1/vms/{id}/logs", NOTHING, str, repeatable=True, assumed=True)
STOP_VM = Operation("stop_vm", "POST", "/v1/vms/{id}/stop", NOTHING, VmRecord, priority=True)
RESTART_VM = Operation("restart_vm", "POST", "/v1/vms/{id}/restart", NOTHING, VmRecord)
TERMINATE_VM = Operation(
    "terminate_vm", "POST", "/v1/vms/{id}/terminate", NOTHING, NOTHING, repeatable=True, priority=True
)
SET_VM_VISIBILITY = Operation(
    "set_vm_visibility", "POST", "/v1/vms/{id}/visibility", Visibility, NOTHING, repeatable=True
)
LIST_VMS = Operation("list_vms", "GET", "/v1/orgs/{orgId}/vms", NOTHING, VmPage, repeatable=True, assumed=True)

CREATE_CLUSTER = Operation("create_cluster", "POST", "/v1/orgs/{orgId}/clusters/create", ClusterCreate, CreatedResource)
LIST_CLUSTERS = Operation("list_clusters", "GET", "/v1/orgs/{orgId}/clusters", NOTHING, ClusterPage, repeatable=True)
GET_CLUSTER = Operation("get_cluster", "GET", "/v1/clusters/{id}", NOTHING, ClusterSummary, repeatable=True)
GET_CLUSTER_DETAIL = Operation(
    "get_cluster_detail", "GET", "/v1/clusters/{id}/detail", NOTHING, ClusterDetail, repeatable=True
)
SCALE_CLUSTER = Operation("scale_cluster", "POST", "/v1/clusters/{id}/scale", ClusterScale, NOTHING, repeatable=True)
RESTART_CLUSTER = Operation("restart_cluster", "POST", "/v1/clusters/{id}/restart", NOTHING, ClusterSummary)
STOP_CLUSTER = Operation("stop_cluster", "POST", "/v1/clusters/{id}/stop", NOTHING, NOTHING, priority=True)
TERMINATE_CLUSTER = Operation(
    "terminate_cluster", "POST", "/v1/clusters/{id}/terminate", NOTHING, NOTHING, repeatable=True, priority=True
)

CREATE_API_KEY = Operation("create_api_key", "POST", "/v1/orgs/{orgId}/api-keys/create", ApiKeyCreate, ApiKeyCreated)
LIST_API_KEYS = Operation("list_api_keys", "GET", "/v1/orgs/{orgId}/api-keys", NOTHING, ApiKeyList, repeatable=True)
REVOKE_API_KEY = Operation(
    "revoke_api_key", "DELETE", "/v1/orgs/{orgId}/api-keys/{id}", NOTHING, NOTHING, repeatable=True
)

GET_ORGANIZATION = Operation("get_organization", "GET", "/v1/orgs/{orgId}", NOTHING, Organization, repeatable=True)
UPDATE_ORGANIZATION = Operation(
    "update_organization", "PATCH", "/v1/orgs/{orgId}", OrganizationUpdate, NOTHING, repeatable=True
)

ADD_MEMBER = Operation("add_member", "POST", "/v1/orgs/{orgId}/members/add", MemberAdd, Member)
LIST_MEMBERS = Operation("list_members", "GET", "/v1/orgs/{orgId}/members", NOTHING, MemberList, repeatable=True)
UPDATE_MEMBER = Operation(
    "update_member", "PATCH", "/v1/orgs/{orgId}/members/{userId}", MemberUpdate, NOTHING, repeatable=True
)
REMOVE_MEMBER = Operation(
    "remove_member", "DELETE", "/v1/orgs/{orgId}/members/{userId}", NOTHING, NOTHING, repeatable=True
)

CREATE_SSH_KEY = Operation("create_ssh_key", "POST", "/v1/orgs/{orgId}/ssh-keys/create", SshKeyCreate, SshKey)
LIST_SSH_KEYS = Operation(
    "list_ssh_keys", "GET", "/v1/orgs/{orgId}/ssh-keys", NOTHING, SshKeyList, repeatable=True, assumed=True
)
ATTACH_SSH_KEY = Operation(
    "attach_ssh_key", "POST", "/v1/vms/{id}/ssh-keys/attach", SshKeyAttach, NOTHING, repeatable=True, assumed=True
)
DELETE_SSH_KEY = Operation(
    "delete_ssh_key", "DELETE", "/v1/orgs/{orgId}/ssh-keys/{id}", NOTHING, NOTHING, repeatable=True, assumed=True
)

CREATE_SNAPSHOT = Operation(
    "create_snapshot", "POST", "/v1/vms/{id}/snapshots/create", SnapshotCreate, Snapshot, assumed=True
)
LIST_SNAPSHOTS = Operation(
    "list_snapshots", "GET", "/v1/vms/{id}/snapshots", NOTHING, SnapshotPage, repeatable=True, assumed=True
)
DELETE_SNAPSHOT = Operation(
    "delete_snapshot",
    "DELETE",
    "/v1/vms/{id}/snapshots/{snapshotId}",
    NOTHING,
    NOTHING,
    repeatable=True,
    assumed=True,
)

CREATE_REGISTRY_CREDENTIAL = Operation(
    "create_registry_credential",
    "POST",
    "/v1/orgs/{orgId}/registry-credentials/create",
    RegistryCredentialCreate,
    RegistryCredential,
)
LIST_REGISTRY_CREDENTIALS = Operation(
    "list_registry_credentials",
    "GET",
    "/v1/orgs/{orgId}/registry-credentials",
    NOTHING,
    RegistryCredentialList,
    repeatable=True,
)
DELETE_REGISTRY_CREDENTIAL = Operation(
    "delete_registry_credential",
    "DELETE",
    "/v1/orgs/{orgId}/registry-credentials/{id}",
    NOTHING,
    NOTHING,
    repeatable=True,
)

CREATE_RUNNER_POOL = Operation(
    "create_runner_pool", "POST", "/v1/orgs/{orgId}/runner-pools", RunnerPoolCreate, RunnerPool
)
LIST_RUNNER_POOLS = Operation(
    "list_runner_pools",
    "GET",
    "/v1/orgs/{orgId}/runner-pools",
    NOTHING,
    RunnerPoolList,
    repeatable=True,
    assumed=True,
)
DELETE_RUNNER_POOL = Operation(
    "delete_runner_pool",
    "DELETE",
    "/v1/orgs/{orgId}/runner-pools/{id}",
    NOTHING,
    NOTHING,
    repeatable=True,
    assumed=True,
    priority=True,
)

CREATE_PROVISIONING_TOKEN = Operation(
    "create_provisioning_token",
    "POST",
    "/v1/orgs/{orgId}/provider/tokens",
    ProvisioningTokenCreate,
    ProvisioningTokenCreated,
)
LIST_PROVISIONING_TOKENS = Operation(
    "list_provisioning_tokens",
    "GET",
    "/v1/orgs/{orgId}/provider/tokens",
    NOTHING,
    ProvisioningTokenList,
    repeatable=True,
)
REVOKE_PROVISIONING_TOKEN = Operation(
    "revoke_provisioning_token",
    "DELETE",
    "/v1/orgs/{orgId}/provider/tokens/{id}",
    NOTHING,
    NOTHING,
    repeatable=True,
)

LIST_PROVIDER_NODES = Operation(
    "list_provider_nodes", "GET", "/v1/orgs/{orgId}/provider/nodes", NOTHING, ProviderNodeList, repeatable=True
)
UPDATE_PROVIDER_NODE = Operation(
    "update_provider_node",
    "PATCH",
    "/v1/orgs/{orgId}/provider/nodes/{nodeId}",
    NodeStatusUpdate,
    NOTHING,
    repeatable=True,
)
GET_PROVIDER_EARNINGS = Operation(
    "get_provider_earnings", "GET", "/v1/orgs/{orgId}/provider/earnings", NOTHING, ProviderEarnings, repeatable=True
)

_BACKENDS = "/v1/inference/models/{modelId}/backends"
_BACKEND = f"{_BACKENDS}/{{id}}"
CREATE_BACKEND = Operation("create_backend", "POST", _BACKENDS, BackendCreate, Backend, assumed=True)
LIST_BACKENDS = Operation("list_backends", "GET", _BACKENDS, NOTHING, BackendList, repeatable=True, assumed=True)
GET_BACKEND = Operation("get_backend", "GET", _BACKEND, NOTHING, Backend, repeatable=True, assumed=True)
UPDATE_BACKEND = Operation("update_backend", "PATCH", _BACKEND, BackendUpdate, Backend, repeatable=True, assumed=True)
DELETE_BACKEND = Operation("delete_backend", "DELETE", _BACKEND, NOTHING, NOTHING, repeatable=True, assumed=True)
_RESERVATIONS = "/v1/orgs/{orgId}/provider/nodes/{nodeId}/reservations"
CREATE_RESERVATION = Operation(
    "create_reservation", "POST", _RESERVATIONS, ReservationCreate, Reservation, assumed=True
)
LIST_RESERVATIONS = Operation(
    "list_reservations", "GET", _RESERVATIONS, NOTHING, ReservationList, repeatable=True, assumed=True
)
RELEASE_RESERVATION = Operation(
    "release_reservation",
    "POST",
    f"{_RESERVATIONS}/{{id}}/release",
    NOTHING,
    NOTHING,
    repeatable=True,
    assumed=True,
)
RECLAIM_RESERVATION = Operation(
    "reclaim_reservation",
    "POST",
    f"{_RESERVATIONS}/{{id}}/reclaim",
    NOTHING,
    NOTHING,
    repeatable=True,
    assumed=True,
)
DELETE_RESERVATION = Operation(
    "delete_reservation", "DELETE", f"{_RESERVATIONS}/{{id}}", NOTHING, NOTHING, repeatable=True, assumed=True
)

_DEPLOYMENTS, _DEPLOYMENT = "/v1/serving/deployments", "/v1/serving/deployments/{id}"
CREATE_DEPLOYMENT = Operation("create_deployment", "POST", _DEPLOYMENTS, DeploymentCreate, Deployment, assumed=True)
LIST_DEPLOYMENTS = Operation(
    "list_deployments", "GET", _DEPLOYMENTS, NOTHING, DeploymentPage, repeatable=True, assumed=True
)
GET_DEPLOYMENT = Operation("get_deployment", "GET", _DEPLOYMENT, NOTHING, Deployment, repeatable=True, assumed=True)
CHANGE_DEPLOYMENT = Operation(
    "change_deployment", "PATCH", _DEPLOYMENT, DeploymentChange, Deployment, repeatable=True, assumed=True
)
DELETE_DEPLOYMENT = Operation(
    "delete_deployment", "DELETE", _DEPLOYMENT, NOTHING, NOTHING, repeatable=True, assumed=True, priority=True
)

CREATE_WEBHOOK = Operation("create_webhook", "POST", "/v1/orgs/{orgId}/webhooks/create", WebhookCreate, WebhookCreated)
LIST_WEBHOOKS = Operation(
    "list_webhooks", "GET", "/v1/orgs/{orgId}/webhooks", NOTHING, WebhookList, repeatable=True, assumed=True
)
DELETE_WEBHOOK = Operation(
    "delete_webhook", "DELETE", "/v1/orgs/{orgId}/webhooks/{id}", NOTHING, NOTHING, repeatable=True, assumed=True
)
TOGGLE_WEBHOOK = Operation(
    "toggle_webhook", "POST", "/v1/orgs/{orgId}/webhooks/{id}/toggle", WebhookToggle, NOTHING, assumed=True
)
REGENERATE_WEBHOOK_SECRET = Operation(
    "regenerate_webhook_secret",
    "POST",
    "/v1/orgs/{orgId}/webhooks/{id}/regenerate-secret",
    NOTHING,
    RolledSecret,
    assumed=True,
)
LIST_WEBHOOK_DELIVERIES = Operation(
    "list_webhook_deliveries",
    "GET",
    "/v1/orgs/{orgId}/webhooks/{id}/deliveries",
    NOTHING,
    WebhookDeliveryList,
    repeatable=True,
    assumed=True,
)

UPLOAD_FILE = Operation(
    "upload_file", "POST", "/v1/files", NOTHING, FileObject, assumed=True, api=Api.INFERENCE, streamed=True
)
LIST_FILES = Operation(
    "list_files", "GET", "/v1/files", NOTHING, FileList, repeatable=True, assumed=True, api=Api.INFERENCE
)
GET_FILE = Operation(
    "get_file", "GET", "/v1/files/{id}", NOTHING, FileObject, repeatable=True, assumed=True, api=Api.INFERENCE
)
DOWNLOAD_FILE = Operation(
    "download_file",
    "GET",
    "/v1/files/{id}/content",
    NOTHING,
    NOTHING,
    repeatable=True,
    assumed=True,
    api=Api.INFERENCE,
    streamed=True,
)
DELETE_FILE = Operation(
    "delete_file", "DELETE", "/v1/files/{id}", NOTHING, FileDeleted, repeatable=True, assumed=True, api=Api.INFERENCE
)

CREATE_BATCH = Operation("create_batch", "POST", "/v1/batches", BatchCreate, Batch, assumed=True, api=Api.INFERENCE)
LIST_BATCHES = Operation(
    "list_batches", "GET", "/v1/batches", NOTHING, BatchList, repeatable=True, assumed=True, api=Api.INFERENCE
)
GET_BATCH = Operation(
    "get_batch", "GET", "/v1/batches/{id}", NOTHING, Batch, repeatable=True, assumed=True, api=Api.INFERENCE
)
CANCEL_BATCH = Operation(
    "cancel_batch", "POST", "/v1/batches/{id}/cancel", NOTHING, Batch, assumed=True, priority=True, api=Api.INFERENCE
)

OPERATIONS: tuple[AnyOperation, ...] = tuple(each for each in [*globals().values()] if isinstance(each, Operation))
"""All rows above."""
INFERENCE_NAMES: frozenset[str] = frozenset(each.name for each in OPERATIONS if each.api is Api.INFERENCE)
"""The names of the operations of the inference API, as errors have them."""
