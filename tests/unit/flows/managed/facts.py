"""Facts to decide from, built from what a test says and sensible defaults."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from pydantic import JsonValue

from relay_client import Cloud, CloudError
from relay_operator.api.meta import ANNOTATION_PREFIX, CreateIntent, ObjectKey
from relay_operator.engine.account import AccountReady, AccountState
from relay_operator.engine.unclaimed_ids import UnclaimedIds
from relay_operator.flows.managed.facts import Facts
from relay_operator.flows.managed.view import View
from relay_operator.kinds.gpupod import GpuPod, GpuPods, GpuPodSpec, GpuPodStatus
from relay_wire.vms import VmRecord

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
PODS = GpuPods()
PodFacts: TypeAlias = Facts[GpuPodSpec, GpuPodStatus, VmRecord]
INTENT = CreateIntent(
    token="t1", name="team-a-train-1", attempt=2, spec_hash="", started_at=NOW, account="CloudAccount/default"
)


def ago(seconds: float) -> str:
    """A moment before `NOW`, as the API writes it."""
    return (NOW - timedelta(seconds=seconds)).isoformat()


def pod(
    spec: Mapping[str, JsonValue] | None = None,
    status: Mapping[str, JsonValue] | None = None,
    annotations: Mapping[str, str] | None = None,
    **metadata: JsonValue,
) -> GpuPod:
    """An object; annotations without our prefix."""
    noted = {f"{ANNOTATION_PREFIX}{name}": value for name, value in (annotations or {}).items()}
    return GpuPod.model_validate(
        {
            "metadata": {
                "name": "train",
                "namespace": "team-a",
                "uid": "u1",
                "generation": 1,
                "annotations": noted,
                **metadata,
            },
            "spec": {"image": "pytorch/pytorch", **(spec or {})},
            "status": {"observedGeneration": 1, **(status or {})},
        }
    )


def record(state: str = "running", **fields: JsonValue) -> VmRecord:
    """What the cloud says of pod-1, as the default spec asks."""
    told = {"imageUrl": "pytorch/pytorch", "gpuCount": 1, "volumeGb": 50, "public": False}
    return VmRecord.model_validate({"id": "pod-1", "name": "team-a-train-1", "status": state, **told, **fields})


def account(*, resend_unknown: bool = False) -> AccountReady:
    """An account that can be used; its cloud is never asked."""
    cloud = Cloud("https://cloud.example", "or_test_key", organization_id="org-1")
    key = ObjectKey("CloudAccount", "team-a", "default")
    return AccountReady(key, cloud, "org-1", UnclaimedIds(), resend_unknown, True)


def facts(
    view: View | None = None,
    obj: GpuPod | None = None,
    *,
    observed: VmRecord | None = None,
    error: CloudError | None = None,
    note: str = "",
    state: AccountState | None = None,
) -> PodFacts:
    made = obj or pod()
    return Facts(PODS, made.key, made, NOW, state or account(), view or View(), INTENT, observed, error, note)
