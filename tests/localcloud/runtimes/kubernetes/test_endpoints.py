"""Where a container answers, inside the cluster; and that it does so only while it is this cloud's and runs."""

from __future__ import annotations

from typing import Any

import pytest

from relay_localcloud.runtimes.kubernetes.endpoints import Endpoints
from relay_localcloud.runtimes.kubernetes.names import INSTANCE
from relay_localcloud.runtimes.kubernetes.observed import Pod
from relay_localcloud.runtimes.runtime import Way

MADE = "2026-11-24T10:00:00Z"
RUNS = {"name": "main", "state": {"running": {"startedAt": MADE}}}


def pod(address: str | None = "10.0.0.9", container: Any = RUNS, owner: str = "mine", **metadata: Any) -> Pod:
    """One that runs."""
    labels = {INSTANCE: owner}
    return Pod.model_validate(
        {
            "metadata": {"name": "pod-1", "uid": "u", "creationTimestamp": MADE, "labels": labels, **metadata},
            "status": {"podIP": address, "containerStatuses": [container]},
        }
    )


def way(found: Pod | None) -> Way | None:
    """Of `pod_1`, at port 80, if this is its Pod."""
    asked: list[tuple[str, str]] = []

    def find(namespace: str, name: str) -> Pod | None:
        asked.append((namespace, name))
        return found

    answer = Endpoints(find, "mine", None).way("org_A", "pod_1", 80)
    assert asked == [("relay-org-a", "pod-1")]
    return answer


def test_inside_the_cluster_it_is_the_address_of_its_pod() -> None:
    assert way(pod()) == Way("http://10.0.0.9:80", "Port 80 of its container", "u")
    assert way(pod("fd00::9")) == Way("http://[fd00::9]:80", "Port 80 of its container", "u")


@pytest.mark.parametrize(
    "found",
    [
        None,
        pod(None),
        pod(owner="another"),
        pod(deletionTimestamp=MADE),
        pod(container={"name": "main", "state": {"waiting": {}}}),
        pod(container={"name": "beside", "state": {"running": {}}}),
    ],
    ids=["absent", "without an address", "another's", "leaving", "not running", "only a sidecar runs"],
)
def test_what_does_not_run_or_is_anothers_has_no_way(found: Pod | None) -> None:
    assert way(found) is None
