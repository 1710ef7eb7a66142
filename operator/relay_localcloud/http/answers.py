"""What the cloud's answers always have, for its OpenAPI description.

The models of `relay_wire` read answers leniently, so that a client survives an odd one; what is served is exact: every
field is there unless it is named here, and none is null unless it is named here.
"""

from collections.abc import Mapping
from typing import Any, Final

MAY_BE_ABSENT: Final[Mapping[str, frozenset[str]]] = {
    "AiProxy": frozenset(),
    "ApiKeySummary": frozenset({"expiresAt", "lastUsedAt", "revokedAt"}),
    "Backend": frozenset(),
    "Balance": frozenset(),
    "BillingBreakdownItem": frozenset(),
    "ChargeOutcome": frozenset(),
    "ClassAvailability": frozenset({"tileLattice"}),  # VM view only
    "ClusterSummary": frozenset({"gpuModelId"}),
    "CreatedResource": frozenset(),
    "CurrentUsage": frozenset(),
    "EndedSpotVm": frozenset(),
    "DailyUsage": frozenset(),
    "Deployment": frozenset(
        {
            "version",
            "dtype",
            "quantization",
            "maxModelLen",
            "engineImage",
            "env",
            "extraArgs",
            "weightsRef",
            "statusReason",
        }
    ),
    "ErrorBody": frozenset(),
    "GpuAvailability": frozenset(),
    "GpuModel": frozenset(),
    "GpuPrice": frozenset(),
    "InferenceError": frozenset(),
    "MessageAnswer": frozenset(),
    "Location": frozenset(),
    "Me": frozenset(),
    "Member": frozenset({"fullName"}),
    "Membership": frozenset(),
    "NodeClassCap": frozenset(),
    "Organization": frozenset({"billingEmail", "monthlySpendLimitCents", "slug"}),
    "PaymentMethod": frozenset(),
    "PodCapacity": frozenset(),
    "Pricing": frozenset(),
    "ProviderStanding": frozenset(),
    "ProvisioningToken": frozenset(),
    "ProvisioningTokenCreated": frozenset(),
    "Reservation": frozenset(),
    "ServingReplica": frozenset({"engineImage", "startedAt"}),
    "SetupIntent": frozenset(),
    "RegistryCredential": frozenset(),
    "RunnerPool": frozenset({"vcsOwner", "vcsOwnerType"}),
    "Snapshot": frozenset({"readyAt", "statusReason"}),
    "SshKey": frozenset(),
    "Transaction": frozenset(),
    "User": frozenset({"avatarUrl", "defaultOrganizationId", "fullName"}),
    "VmRecord": frozenset({"gpuModelId", "gpuModelName", "imageUrl", "provisioningStage", "statusReason"}),
    "VmTemplate": frozenset(),
    "Webhook": frozenset(),
    "WebhookCreated": frozenset(),
    "WebhookDelivery": frozenset(),
    "Whoami": frozenset(),
}
"""By the name of the answer's schema; the required fields of others are those of their models."""

MAY_BE_NULL: Final[Mapping[str, frozenset[str]]] = {
    "Balance": frozenset({"monthlySpendLimitCents"}),
    "BatchList": frozenset({"first_id", "last_id"}),
    "BillingBreakdownItem": frozenset({"gpuModelId"}),
    "CurrentUsage": frozenset({"projectedRunwayHours"}),
    "FileList": frozenset({"first_id", "last_id"}),
    "InferenceError": frozenset({"code"}),
    "MessageAnswer": frozenset({"stop_sequence"}),
    "ProviderStanding": frozenset({"applicationStatus", "appliedAt", "decidedAt"}),
    "ProvisioningToken": frozenset({"nodeType"}),
    "ProvisioningTokenCreated": frozenset({"nodeType"}),
    "Reservation": frozenset({"endsAt", "contractRef", "reason"}),
    "WebhookDelivery": frozenset({"statusCode", "error"}),
}


def sharpen(name: str, schema: dict[str, Any]) -> None:
    """Say in an answer's schema what is always there and never null."""
    properties: dict[str, dict[str, Any]] = schema.get("properties", {})
    if name in MAY_BE_ABSENT:
        schema["required"] = [field for field in properties if field not in MAY_BE_ABSENT[name]]
    for field, shape in properties.items():
        if field not in MAY_BE_NULL.get(name, frozenset()):
            _without_null(shape)


def _without_null(shape: dict[str, Any]) -> None:
    if shape.get("default", "") is None:
        del shape["default"]
    kept = [branch for branch in shape.get("anyOf", ()) if branch != {"type": "null"}]
    if len(kept) == 1:
        del shape["anyOf"]
        shape.update(kept[0])
