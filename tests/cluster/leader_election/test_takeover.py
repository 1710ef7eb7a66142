"""One leader at a time, on a real API server under the chart's rights, and what happens when it goes."""

from __future__ import annotations

import asyncio
import json
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

import aiohttp
import pytest
import pytest_asyncio

from relay_kube.kube import Kube
from relay_operator.leader.election import Election, LeaseLostError, LeaseTimes
from relay_operator.leader.label import LeaderLabel
from relay_operator.leader.owner import own
from tests.cluster.batch_side import batch, put_prompts, record
from tests.cluster.operators_client import client_of
from tests.conftest import OPERATOR_NAMESPACE
from tests.support.chart import grant_access, rendered
from tests.support.eventually import PATIENCE_SECONDS, eventually
from tests.support.forked import OPERATOR
from tests.support.operator import Operator
from tests.support.process import free_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.conftest import SharedOperator, StartOperator
    from tests.support.controlplane import Cluster
    from tests.support.kube import Kube as Administrator
    from tests.support.localcloud import LocalCloud
    from tests.support.workspace import Workspace

LEASE = "relay-operator"
DOWNLOAD = "GET /v1/files/{id}/content"
SELECTED = {"app.kubernetes.io/name": "relay-operator", "app.kubernetes.io/instance": "relay-operator"}
TIMES = LeaseTimes(duration=15, renew_deadline=10, retry=2)
LEASE_SETTINGS = {
    "leader_election": "true",
    "lease_duration_seconds": "15",  # a busy machine keeps a leader from renewing it for seconds
    "lease_renew_deadline_seconds": "10",
    "lease_retry_seconds": "0.25",
}

KEPT = LEASE_SETTINGS | {"lease_duration_seconds": "600", "lease_renew_deadline_seconds": "300"}
"""For tests in which nobody takes over: however busy the machine is, the leader keeps its Lease."""


@pytest_asyncio.fixture
async def operator_kube(
    operator_kubeconfig: Path, shared_operator: SharedOperator, kube: Administrator
) -> AsyncIterator[Kube]:
    """The operator's own client and rights; the shared operator gave its Lease up, and no Lease is there."""
    await shared_operator.operator.stop()
    await kube.delete("Lease", LEASE, OPERATOR_NAMESPACE)
    async with client_of(operator_kubeconfig) as operators:
        yield operators
    await kube.delete("Lease", LEASE, OPERATOR_NAMESPACE)


@dataclass
class _Time:
    """The time of two candidates: what the machine needs does not count."""

    now: float = 0.0

    def clock(self) -> float:
        return self.now

    async def passes(self, seconds: float) -> None:
        """A pause, after which it is so many seconds later."""
        await asyncio.sleep(0.05)
        self.now += seconds

    async def stands(self, _seconds: float) -> None:
        """A pause of somebody else's time."""
        await asyncio.sleep(0.05)


@pytest.fixture
def time() -> _Time:
    return _Time()


def _candidate(kube: Kube, identity: str, time: _Time, namespace: str = OPERATOR_NAMESPACE) -> Election:
    return Election(kube, namespace, LEASE, identity, TIMES, clock=time.clock, sleep=time.passes)


async def test_a_standby_waits_takes_a_released_lease_and_the_lease_tells_who_leads(
    operator_kube: Kube, kube: Administrator, time: _Time
) -> None:
    first, second = (_candidate(operator_kube, name, time) for name in ("first", "second"))
    second.sleep = time.stands
    await first.acquire()
    holding = asyncio.create_task(first.hold())
    standing_by = asyncio.create_task(second.acquire())
    # As long as it is renewed the Lease changes, and outlives its duration.
    renewed = {(await kube.get("Lease", LEASE, OPERATOR_NAMESPACE))["spec"]["renewTime"]}

    async def renewals() -> int:
        renewed.add((await kube.get("Lease", LEASE, OPERATOR_NAMESPACE))["spec"]["renewTime"])
        return len(renewed)

    await eventually(renewals, lambda _: time.now > 2 * TIMES.duration, what="the Lease is renewed past its duration")
    assert len(renewed) > 2
    assert not standing_by.done()
    assert first.leading()
    holding.cancel()
    await first.release()
    await asyncio.wait_for(standing_by, PATIENCE_SECONDS)
    assert second.leading()
    assert not first.leading()
    spec = (await kube.get("Lease", LEASE, OPERATOR_NAMESPACE))["spec"]
    assert (spec["holderIdentity"], spec["leaseTransitions"], spec["leaseDurationSeconds"]) == ("second", 1, 15)


async def test_a_leader_whose_lease_another_took_ends(operator_kube: Kube, kube: Administrator, time: _Time) -> None:
    first = _candidate(operator_kube, "first", time)
    await first.acquire()
    await kube.patch("Lease", LEASE, {"spec": {"holderIdentity": "somebody"}}, OPERATOR_NAMESPACE)
    with pytest.raises(LeaseLostError, match="somebody holds it"):
        await asyncio.wait_for(first.hold(), PATIENCE_SECONDS)
    assert not first.leading()


@pytest_asyncio.fixture
async def pods(operator_kube: Kube, kube: Administrator) -> AsyncIterator[tuple[str, str]]:
    """The names of the Pods of two replicas."""
    assert operator_kube is not None
    names = [f"relay-operator-{secrets.token_hex(3)}" for _ in range(2)]
    spec = {"containers": [{"name": "operator", "image": "relay-operator"}]}
    for name in names:
        metadata = {"name": name, "namespace": OPERATOR_NAMESPACE, "labels": SELECTED}
        await kube.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    yield names[0], names[1]
    for name in names:
        await kube.delete("Pod", name, OPERATOR_NAMESPACE, gracePeriodSeconds=0)


async def _labels(kube: Administrator, pod: str) -> dict[str, str]:
    labels: dict[str, str] = (await kube.get("Pod", pod, OPERATOR_NAMESPACE))["metadata"]["labels"]
    return labels


async def test_the_leaders_pod_carries_the_label_that_the_service_selects(
    operator_kube: Kube, kube: Administrator, pods: tuple[str, str]
) -> None:
    name, _ = pods
    label = LeaderLabel(operator_kube, OPERATOR_NAMESPACE, name)
    await label.put(leading=True)
    assert await _labels(kube, name) == {**SELECTED, "gpurelay.dev/leader": "true"}
    await label.put(leading=False)
    assert await _labels(kube, name) == SELECTED


async def test_who_takes_over_from_a_frozen_leader_takes_its_label_off(
    operator_kube: Kube, kube: Administrator, pods: tuple[str, str], time: _Time
) -> None:
    """The first renews no more, and does nothing else either."""
    first, second = (_candidate(operator_kube, name, time) for name in pods)
    await first.acquire()
    await LeaderLabel(operator_kube, OPERATOR_NAMESPACE, first.identity).put(leading=True)
    await asyncio.wait_for(second.acquire(), PATIENCE_SECONDS)
    assert (first.former, second.former) == ("", first.identity)
    label = LeaderLabel(operator_kube, OPERATOR_NAMESPACE, second.identity)
    await label.put(leading=True)
    await label.take_from(second.former)
    assert "gpurelay.dev/leader" not in await _labels(kube, first.identity)
    assert "gpurelay.dev/leader" in await _labels(kube, second.identity)


async def test_the_lease_goes_with_the_operators_service_account_and_a_leader_stays_one(
    cluster: Cluster, kube: Administrator, time: _Time
) -> None:
    namespace = f"lease-{secrets.token_hex(3)}"
    kubeconfig = await grant_access(cluster, namespace)
    async with client_of(kubeconfig) as operator_kube:
        leader = _candidate(operator_kube, "first", time, namespace)
        await leader.acquire()
        await own(operator_kube, namespace, LEASE)
        for _ in range(2):
            await leader.renew()
        assert leader.leading()
    (owner,) = (await kube.get("Lease", LEASE, namespace))["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("ServiceAccount", "relay-operator")
    await kube.delete("ServiceAccount", "relay-operator", namespace)
    looked_at = kube.looking_at("Lease", LEASE, namespace)
    await eventually(looked_at, lambda lease: lease is None, what="the Lease is collected")
    await _withdraw_access(kube, namespace)


async def _withdraw_access(kube: Administrator, namespace: str) -> None:
    for one in await rendered(namespace):
        if one["kind"].startswith(("ClusterRole", "ValidatingAdmission")):
            await kube.delete(one["kind"], one["metadata"]["name"])
    await kube.delete("Namespace", namespace)


async def test_what_a_person_runs_owns_no_lease(
    cluster: Cluster, kube: Administrator, operator_kube: Kube, time: _Time
) -> None:
    await _candidate(operator_kube, "first", time).acquire()
    async with client_of(cluster.kubeconfig) as of_a_person:
        await own(of_a_person, OPERATOR_NAMESPACE, LEASE)
    assert "ownerReferences" not in (await kube.get("Lease", LEASE, OPERATOR_NAMESPACE))["metadata"]


@pytest.fixture
def replicas(
    unattended_workspace: Workspace, private_cloud: LocalCloud, operator_kubeconfig: Path, tmp_path: Path
) -> tuple[Operator, Operator]:
    """Two replicas as processes, not started."""
    settings = LEASE_SETTINGS | {"watch_namespaces": unattended_workspace.namespace}
    urls = private_cloud.ports.urls()
    first, second = (
        Operator(tmp_path / name, operator_kubeconfig, OPERATOR_NAMESPACE, urls, settings, program=OPERATOR)
        for name in ("a", "b")
    )
    return first, second


async def _leads(operator: Operator) -> bool:
    return await operator.metric("gpurelay_leader") == 1


@pytest.mark.parametrize("end", ["kill", "stop"])
async def test_a_standby_process_goes_on_where_the_leader_ended(
    end: str, operator_kube: Kube, replicas: tuple[Operator, Operator], unattended_workspace: Workspace
) -> None:
    assert operator_kube is not None
    first, second = replicas
    await first.start()
    await eventually(lambda: _leads(first), what="the first leads")
    await second.start()
    try:
        await unattended_workspace.becomes("CloudAccount", "default")
        assert not await _leads(second)
        await getattr(first, end)()
        await eventually(lambda: _leads(second), what="the second leads")
        shared = {"apiVersion": "gpurelay.dev/v1alpha1", "kind": "CloudAccount", "metadata": {"name": "later"}}
        spec = (await unattended_workspace.kube.get("CloudAccount", "default"))["spec"]
        await unattended_workspace.apply({**shared, "spec": spec})
        await unattended_workspace.becomes("CloudAccount", "later")
        await unattended_workspace.kube.delete("CloudAccount", "later")
        await unattended_workspace.is_gone("CloudAccount", "later")
        for line in (*first.log_lines(), *second.log_lines()):
            assert "traceback" not in line
            assert "raw" not in line
    finally:
        await first.kill()
        await second.kill()


async def test_a_process_that_may_not_have_the_lease_is_not_ready_and_says_why(
    unattended_workspace: Workspace, private_cloud: LocalCloud, operator_kubeconfig: Path, tmp_path: Path
) -> None:
    """Its rights are those of the operator's namespace, and it is told another."""
    elsewhere = unattended_workspace.namespace
    urls = private_cloud.ports.urls()
    operator = Operator(tmp_path, operator_kubeconfig, elsewhere, urls, LEASE_SETTINGS, program=OPERATOR)
    starting = asyncio.create_task(operator.start())

    async def told() -> str:
        async with aiohttp.ClientSession() as session, session.get(f"{operator.metrics_url}/readyz") as answer:
            assert answer.status == 503
            return await answer.text()

    async def refused() -> str:
        try:
            reason = await told()
        except aiohttp.ClientError:
            return ""
        return reason if f"the Lease {elsewhere}/relay-operator is refused" in reason else ""

    try:
        assert "forbidden" in await eventually(refused, what="it tells that the Lease is refused")
        errors = [line for line in operator.log_lines() if line.get("level") == "error"]
        assert len(errors) == 1
        assert not starting.done()
    finally:
        starting.cancel()
        await operator.kill()


async def test_a_process_without_an_api_server_can_be_stopped(tmp_path: Path) -> None:
    kubeconfig, nobody = tmp_path / "kubeconfig", {"server": f"http://127.0.0.1:{free_port()}"}
    context = {"cluster": "it", "user": "it"}
    parts: dict[str, object] = {"context": context, "cluster": nobody, "user": {}}
    lists = {f"{name}s": [{"name": "it", name: part}] for name, part in parts.items()}
    kubeconfig.write_text(json.dumps({"current-context": "it", **lists}))
    operator = Operator(tmp_path, kubeconfig, OPERATOR_NAMESPACE, [], LEASE_SETTINGS, program=OPERATOR)
    operator.process.env = {**(operator.process.env or {}), "POD_NAME": "relay-operator-0"}
    operator.process.spawn()

    async def log() -> str:
        return operator.log.read_text()

    try:
        await eventually(log, lambda text: "cannot be labelled yet" in text, what="it cannot reach the API server")
        assert await operator.stop(PATIENCE_SECONDS) == 0
    finally:
        await operator.kill()


async def test_a_process_that_may_not_list_what_there_is_is_not_ready_and_takes_no_lease(
    cluster: Cluster, kube: Administrator, private_cloud: LocalCloud, tmp_path: Path
) -> None:
    """It has its rights for its own namespace, such as those for the Lease, and no others."""
    namespace = f"narrow-{secrets.token_hex(4)}"
    await kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    for manifest in await rendered(namespace):
        if manifest["kind"] in {"ServiceAccount", "Role", "RoleBinding"}:
            await kube.apply(manifest)
    kubeconfig = await cluster.service_account_kubeconfig(namespace, "relay-operator")
    urls = private_cloud.ports.urls()
    operator = Operator(tmp_path, kubeconfig, namespace, urls, LEASE_SETTINGS, program=OPERATOR)
    starting = asyncio.create_task(operator.start())

    async def told() -> str:
        try:
            async with aiohttp.ClientSession() as session, session.get(f"{operator.metrics_url}/readyz") as answer:
                return f"{answer.status} {await answer.text()}"
        except aiohttp.ClientError:
            return ""

    try:
        said = await eventually(told, lambda text: "cannot be listed" in text, what="it tells what it may not")
        assert said.startswith("503")
        assert "forbidden" in said
        assert not starting.done()
        assert await kube.find("Lease", LEASE, namespace) is None
    finally:
        starting.cancel()
        await operator.kill()
        await kube.delete("Namespace", namespace)


async def test_a_process_whose_lease_another_took_ends_at_once(
    operator_kube: Kube, unattended_workspace: Workspace, start_operator: StartOperator, kube: Administrator
) -> None:
    assert operator_kube is not None
    first = await start_operator(unattended_workspace, **KEPT)
    try:
        await eventually(lambda: _leads(first), what="it leads")
        await kube.patch("Lease", LEASE, {"spec": {"holderIdentity": "somebody"}}, OPERATOR_NAMESPACE)
        assert await first.process.until_ended(PATIENCE_SECONDS) == 1
        assert "somebody holds it" in str(first.log_lines()[-1]["message"])
    finally:
        await first.kill()


async def test_a_process_whose_workers_see_first_that_the_lease_is_lost_ends_with_an_error(
    cluster: Cluster, kube: Administrator, unattended_workspace: Workspace, tmp_path: Path
) -> None:
    """The next renewal would come seconds after the deadline, and objects come due all the time."""
    workspace, namespace = unattended_workspace, f"lease-{secrets.token_hex(3)}"
    times = {"lease_duration_seconds": "20", "lease_renew_deadline_seconds": "15", "lease_retry_seconds": "10"}
    settings = LEASE_SETTINGS | times | {"watch_namespaces": workspace.namespace, "workers": "1"}
    kubeconfig, urls = await grant_access(cluster, namespace), workspace.cloud.ports.urls()
    operator = Operator(tmp_path, kubeconfig, namespace, urls, settings, program=OPERATOR)
    await operator.start()

    async def ended() -> bool:
        asked = {"metadata": {"annotations": {"gpurelay.dev/reconcile-at": secrets.token_hex(4)}}}
        await kube.patch("CloudAccount", "default", asked, workspace.namespace)
        return not operator.process.running

    try:
        await workspace.becomes("CloudAccount", "default")
        await kube.delete("RoleBinding", "relay-operator-self", namespace)
        await eventually(ended, what="it ends")
        assert operator.process.exit_code == 1
        lost = f"ending: the Lease {namespace}/relay-operator is lost: it could not be renewed in time"
        assert lost in [line.get("message") for line in operator.log_lines()]
    finally:
        await operator.kill()
        await _withdraw_access(kube, namespace)


async def test_the_lease_is_released_after_long_work_has_ended(
    operator_kube: Kube, unattended_workspace: Workspace, start_operator: StartOperator
) -> None:
    assert operator_kube is not None
    workspace = unattended_workspace
    operator = await start_operator(workspace, **KEPT)
    control = workspace.cloud.control
    await control.settings(batchRecordSeconds=0.01)
    fault = await control.fault(DOWNLOAD, {"delaySeconds": 60}, organizationId=workspace.organization.id)
    await put_prompts(workspace, [record("r1")])
    await workspace.apply(batch())
    await eventually(lambda: control.was_met(fault), what="answers are being fetched")
    await operator.stop(PATIENCE_SECONDS)
    said = [str(line.get("message")) for line in operator.log_lines()]
    ended = next(place for place, line in enumerate(said) if line.startswith("long work has ended"))
    assert ended < said.index("the Lease is released")
