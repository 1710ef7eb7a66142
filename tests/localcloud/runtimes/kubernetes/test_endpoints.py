"""Where a container answers, inside the cluster; and that it does so only while it runs."""

from __future__ import annotations

import ssl
from typing import Any

import pytest

from relay_localcloud.runtimes.kubernetes.endpoints import Endpoints, Found, Outside
from relay_localcloud.runtimes.kubernetes.names import CLOUD_ID, INSTANCE, REPLICA_ID
from relay_localcloud.runtimes.kubernetes.observed import Pod
from relay_localcloud.runtimes.runtime import Proxied, Way

MADE = "2026-11-24T10:00:00Z"
RUNS = {"name": "main", "state": {"running": {"startedAt": MADE}}}


def pod(address: str | None = "10.0.0.9", container: Any = RUNS, **metadata: Any) -> Pod:
    """One that runs."""
    labels = {INSTANCE: "mine"}
    metadata = {"namespace": "relay-org-a", **metadata}
    return Pod.model_validate(
        {
            "metadata": {"name": "pod-1", "uid": "u", "creationTimestamp": MADE, "labels": labels, **metadata},
            "status": {"podIP": address, "containerStatuses": [container]},
        }
    )


def there(found: Pod | None) -> Found | None:
    """A Pod on the cluster that the cloud runs in."""
    return None if found is None else Found(found, "cluster", None, found)


def way(found: Pod | None) -> Way | None:
    """Of `pod_1`, at port 80, if this is its Pod."""
    asked: list[tuple[str, str]] = []

    def find(namespace: str, name: str) -> Found | None:
        asked.append((namespace, name))
        return there(found)

    answer = Endpoints(find).way("org_A", "pod_1", 80)
    assert asked == [("relay-org-a", "pod-1")]
    return answer


def test_inside_the_cluster_a_vm_is_reached_at_the_address_of_the_pod_that_it_runs_in_and_has_none_before() -> None:
    def of_vm(launcher: Pod) -> Way | None:
        found = Found(pod("192.168.0.1", name="vm-1"), "cluster", None, launcher)
        return Endpoints(lambda _, __: found).way("org_A", "vm_1", 80)

    assert of_vm(pod("10.0.0.7", name="virt-launcher-vm-1-x", uid="launcher")) == Way(
        "http://10.0.0.7:80", "Port 80 of its container", "u"
    )
    assert of_vm(pod(None, name="virt-launcher-vm-1-x")) is None


def test_from_outside_a_vm_is_reached_through_the_pod_that_it_runs_in() -> None:
    outside = Outside("https://api", Proxied(dict, ssl.create_default_context()))
    found = Found(pod(None, name="vm-1"), "cluster", outside, pod(name="virt-launcher-vm-1-x"))
    way = Endpoints(lambda _, __: found).way("org_A", "vm_1", 80)
    assert way is not None
    assert way.url == "https://api/api/v1/namespaces/relay-org-a/pods/virt-launcher-vm-1-x:80/proxy"


def replica(number: int, *, ready: bool, namespace: str = "relay-org-a") -> Pod:
    """One of `cluster_1`, whose container runs."""
    labels = {CLOUD_ID: "cluster_1", REPLICA_ID: f"rep_{number}"}
    found = pod(f"10.0.0.{number}", {**RUNS, "ready": ready}, name=f"rep-{number}", uid=f"u{number}")
    metadata = found.metadata.model_copy(update={"namespace": namespace, "labels": {INSTANCE: "mine", **labels}})
    return found.model_copy(update={"metadata": metadata})


class Cluster:
    """What its Pods are just now."""

    def __init__(self, *pods: Pod) -> None:
        self.pods = {each.metadata.name: each for each in pods}
        self.endpoints = Endpoints(lambda _, name: there(self.pods.get(name)))
        for each in pods:
            self.endpoints.moved(each)

    def becomes(self, seen: Pod) -> None:
        self.pods[seen.metadata.name] = seen
        self.endpoints.moved(seen)

    def goes(self, name: str) -> None:
        self.endpoints.moved(self.pods.pop(name))

    def answered_by(self, count: int) -> list[str | None]:
        ways = [self.endpoints.way("org_A", "cluster_1", 80) for _ in range(count)]
        return [None if each is None else each.uid for each in ways]


def test_the_healthy_replicas_answer_in_turn() -> None:
    cluster = Cluster(replica(1, ready=True), replica(2, ready=False), replica(3, ready=True))
    assert cluster.answered_by(4) == ["u1", "u3", "u1", "u3"]
    cluster.becomes(replica(2, ready=True))
    assert sorted(map(str, cluster.answered_by(3))) == ["u1", "u2", "u3"]
    cluster.goes("rep-1")
    cluster.becomes(replica(3, ready=False))
    assert cluster.answered_by(2) == ["u2", "u2"]
    cluster.goes("rep-2")
    assert cluster.answered_by(1) == [None]
    cluster.goes("rep-3")
    assert cluster.answered_by(1) == [None]


def test_what_passes_to_a_replica_may_go_on_until_its_container_is_gone() -> None:
    cluster = Cluster(replica(1, ready=True), replica(2, ready=True))
    assert cluster.endpoints.way("org_A", "cluster_1", 80, "u1") == Way(
        "http://10.0.0.1:80", "Port 80 of its container", "u1"
    )
    cluster.becomes(replica(1, ready=False))
    assert cluster.endpoints.way("org_A", "cluster_1", 80, "u1") is not None
    cluster.goes("rep-1")
    assert cluster.endpoints.way("org_A", "cluster_1", 80, "u1") is None


def test_inside_the_cluster_it_is_the_address_of_its_pod() -> None:
    assert way(pod()) == Way("http://10.0.0.9:80", "Port 80 of its container", "u")
    assert way(pod("fd00::9")) == Way("http://[fd00::9]:80", "Port 80 of its container", "u")


@pytest.mark.parametrize(
    "found",
    [
        None,
        pod(None),
        pod(deletionTimestamp=MADE),
        pod(container={"name": "main", "state": {"waiting": {}}}),
        pod(container={"name": "beside", "state": {"running": {}}}),
    ],
    ids=["absent", "without an address", "leaving", "not running", "only a sidecar runs"],
)
def test_what_does_not_run_has_no_way(found: Pod | None) -> None:
    assert way(found) is None
