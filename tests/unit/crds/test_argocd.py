"""What Argo CD is told of our kinds is what kstatus tells everybody else, row by row."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from relay_operator.api.conditions import ConditionType
from relay_operator.crds import DEFINITIONS
from tests.support.argo import CONFIG_MAP, argo_health, checks
from tests.support.kstatus import kstatus

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.support.kube import Manifest

DECIDING = ("Ready", "Reconciling", "Stalled", "Paused", "Suspended")


def item(says: Mapping[str, str | None], *, observed: int = 2, deleted: bool = False, kind: str = "GpuPod") -> Manifest:
    conditions = [
        {"type": name, "status": status, "reason": "Why", "message": f"{name} says"}
        for name, status in says.items()
        if status is not None
    ]
    metadata: dict[str, Any] = {"name": "a", "generation": 2}
    if deleted:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    status = {"observedGeneration": observed, "conditions": conditions}
    return {"apiVersion": "gpurelay.dev/v1alpha1", "kind": kind, "metadata": metadata, "status": status}


def test_every_row_of_what_decides_is_read_as_kstatus_reads_it() -> None:
    """`kstatus` compares both."""
    shown, held = (None, "True", "False"), (None, "True")
    rows = product(("True", "False", "Unknown"), shown, shown, held, held, (-1, 1, 2), (False, True))
    for *says, observed, deleted in rows:
        kstatus(item(dict(zip(DECIDING, says, strict=True)), observed=observed, deleted=deleted))


@pytest.mark.parametrize("status", ["True", "False", "Unknown"])
@pytest.mark.parametrize("kind", sorted(set(ConditionType) - set(DECIDING)))
def test_no_other_condition_decides(kind: str, status: str) -> None:
    assert argo_health(item({"Ready": "True", kind: status}))[0] == "Healthy"
    assert argo_health(item({"Ready": "False", kind: status}))[0] == "Progressing"


@pytest.mark.parametrize(
    ("says", "why"),
    [
        ({"Ready": "True"}, "Ready"),
        ({"Ready": "True", "Stalled": "True", "Reconciling": "True"}, "Stalled"),
        ({"Ready": "True", "Paused": "True"}, "Paused"),
        ({"Ready": "False", "Reconciling": "True", "Stalled": "False"}, "Reconciling"),
    ],
)
def test_of_an_object_that_is_deleted_the_message_is_what_holds_it(says: dict[str, str], why: str) -> None:
    assert argo_health(item(says, deleted=True)) == ("Progressing", f"{why} says")


@pytest.mark.parametrize(
    ("says", "expected"),
    [
        ({"Ready": "True"}, ("Healthy", "Ready says")),
        ({"Ready": "False", "Reconciling": "True"}, ("Progressing", "Reconciling says")),
        ({"Ready": "False", "Stalled": "True"}, ("Degraded", "Stalled says")),
        ({"Ready": "True", "Suspended": "True"}, ("Suspended", "Suspended says")),
        ({"Ready": "False", "Paused": "True"}, ("Suspended", "Paused says")),
        ({"Ready": "Unknown"}, ("Progressing", "Ready says")),
    ],
)
def test_the_message_is_that_of_what_decided(says: dict[str, str], expected: tuple[str, str]) -> None:
    assert argo_health(item(says)) == expected


@pytest.mark.parametrize("status", [None, {}, {"observedGeneration": -1}, {"observedGeneration": 1}])
def test_what_nobody_has_looked_at_so_far_is_not_healthy(status: dict[str, int] | None) -> None:
    new = item({}) | {"status": status}
    assert argo_health(new) == ("Progressing", "the operator has not looked at this spec yet")


def test_there_is_one_check_a_kind_and_both_files_hold_them() -> None:
    expected = {f"resource.customizations.health.gpurelay.dev_{one.kind}" for one in DEFINITIONS}
    assert checks().keys() == expected
    values = yaml.safe_load(CONFIG_MAP.with_name("health-values.yaml").read_text())
    assert values == {"configs": {"cm": checks()}}
    patched = yaml.safe_load(CONFIG_MAP.read_text())
    assert (patched["kind"], patched["metadata"]) == ("ConfigMap", {"name": "argocd-cm"})
