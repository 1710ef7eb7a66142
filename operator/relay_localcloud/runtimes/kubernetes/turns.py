"""One look at one holder: its row, its Pod, what that tells, and what is to be done; all in one transaction."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from relay_localcloud.kernel.store import Tx
from relay_localcloud.quotas import quotas
from relay_localcloud.runtimes.kubernetes import facts, fleet, holdings, reports, runs, tenants, wanted
from relay_localcloud.runtimes.kubernetes.facts import CannotStart, Deleted, Fact, Failed, Gone
from relay_localcloud.runtimes.kubernetes.holdings import HOLDINGS, Holding, Standing
from relay_localcloud.runtimes.kubernetes.names import name_of, namespace_of
from relay_localcloud.runtimes.kubernetes.observed import Event, Pod
from relay_localcloud.runtimes.kubernetes.runs import Machine, Run
from relay_localcloud.runtimes.kubernetes.situations import STEPS, Situation, Step, situation, start_of
from relay_localcloud.runtimes.kubernetes.tenants import Account, Gateway, Manifest
from relay_localcloud.runtimes.kubernetes.wanted import Terms
from relay_localcloud.runtimes.runtime import Noun
from relay_localcloud.workloads.ssh_keys import ATTACHED, KEYS
from relay_localcloud.workloads.workloads import POD, WORKLOADS, Workload

NO_VOLUMES = "Volumes are not offered here: the administrator of this cloud has named no storage class."
_NOT_YET: Final[Mapping[Noun, str]] = {
    Noun.VM: "VMs are not offered here, since this cloud runs containers on Kubernetes: create a pod (POST /v1/pods).",
    Noun.CLUSTER: "Clusters are not offered here yet: create a pod (POST /v1/pods) for each replica.",
    Noun.DEPLOYMENT: "Serving deployments are not offered here yet: create a pod (POST /v1/pods) of the engine's "
    "image, and register its endpoint as an inference backend.",
    Noun.SNAPSHOT: "Snapshots are not offered here: copy what matters off /workspace from inside the pod.",
    Noun.TRANSFER: "A pod does not change its organization here, since its volume does not: create another one there.",
}
TAKEN = "There is a Pod of this name that is not this cloud's: its administrator must take it away."
_VANISHED = "Its Pod was deleted."
_STAYS = frozenset({Situation.PRESENT, Situation.LATER})


@dataclass(frozen=True, slots=True)
class Offer:
    """What holds for all that runs on a cluster: the terms, who reaches it, and the resources that are counted.

    `account` is whom a cloud inside the cluster asks as; one outside has all rights that it needs already.
    """

    terms: Terms
    gateway: Gateway
    resources: Sequence[str]
    account: Account | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known of a cluster just now: Nodes that report, by name, and Pods and their Events."""

    machines: Mapping[str, Machine]
    pod: Callable[[str, str], Pod | None]
    events: Callable[[str], Iterable[Event]]


@dataclass(frozen=True, slots=True)
class Turn:
    """What is to be done for a holder; `tenant` and `manifests` are what MAKE makes, in their order."""

    holding: Holding
    namespace: str
    name: str
    step: Step
    uid: str = ""
    tenant: Sequence[Manifest] = ()
    manifests: Sequence[Manifest] = ()


def lacking(offer: Offer) -> Mapping[Noun, str]:
    """What cannot be made on this cluster, and what to use."""
    return _NOT_YET if offer.terms.storage_class is not None else {**_NOT_YET, Noun.POD: NO_VOLUMES}


def take(tx: Tx, holder_id: str, seen: Seen, offer: Offer) -> Turn | None:
    """Tell the row what its Pod says, and decide; None for what is no pod of this runtime."""
    workload, holding = WORKLOADS.find(tx, id=holder_id), HOLDINGS.find(tx, id=holder_id)
    if workload is None or holding is None or workload.kind != POD:
        return None
    namespace, name = namespace_of(workload.organization_id), name_of(workload.id)
    pod = seen.pod(namespace, name)
    there = situation(holding, pod, offer.terms.instance)
    _tell(tx, workload, holding, pod, there, seen)
    holding = HOLDINGS.find(tx, id=holder_id) or holding  # what was told may have ended it
    step = STEPS[holding.standing][situation(holding, pod, offer.terms.instance)]
    if step is Step.MAKE:
        return _making(tx, workload, Turn(holding, namespace, name, step), seen, offer)
    return Turn(holding, namespace, name, step, "" if pod is None else pod.metadata.uid)


def refused(tx: Tx, turn: Turn, words: str) -> None:
    """The cluster does not take what is wanted: the row says so, and fails if that goes on for long."""
    workload, holding = WORKLOADS.find(tx, id=turn.holding.id), HOLDINGS.find(tx, id=turn.holding.id)
    if workload is not None and holding == turn.holding and holding.standing is Standing.RUN:
        lasts = tx.now - holding.since >= facts.START_WITHIN
        reports.tell(tx, workload, [Failed(words) if lasts else CannotStart(words)], ())


def _tell(tx: Tx, workload: Workload, holding: Holding, pod: Pod | None, there: Situation, seen: Seen) -> None:
    if holding.standing is not Standing.RUN:
        if STEPS[holding.standing][there] is Step.SWEEP:
            reports.tell(tx, workload, [Gone()], ())
        return
    if pod is None or there is Situation.FOREIGN:
        reports.tell(tx, workload, _without_pod(holding, there), ())
        if holding.uid is not None:
            HOLDINGS.change(tx, holding.id, uid=None, since=tx.now)
        return
    if start_of(pod) < holding.start or not _reports(tx, workload, seen):
        return
    known = holdings.exits_of(holding)
    told = facts.of_pod(pod, [*seen.events(pod.metadata.uid)], known, tx.now)
    uid = pod.metadata.uid if there in _STAYS else None
    holdings.saw(tx, holding, start_of(pod), uid, facts.last_exits(pod, known))
    reports.tell(tx, workload, told, known)


def _without_pod(holding: Holding, there: Situation) -> Sequence[Fact]:
    if there is Situation.FOREIGN:
        return [CannotStart(TAKEN)]
    return [Deleted(_VANISHED)] if holding.uid is not None else []


def _reports(tx: Tx, workload: Workload, seen: Seen) -> bool:
    """Whether its node does; what a Pod says on a silent one is old."""
    assert workload.node_id is not None, "a pod has a node"
    return fleet.name_of_node(tx, workload.node_id) in seen.machines


def _making(tx: Tx, workload: Workload, turn: Turn, seen: Seen, offer: Offer) -> Turn:
    """With all that is to be made; nothing while its node is away, or if it cannot be made here."""
    waiting = Turn(turn.holding, turn.namespace, turn.name, Step.NOTHING)
    if offer.terms.storage_class is None:
        reports.tell(tx, workload, [Failed(NO_VOLUMES)], ())
        return waiting
    assert workload.node_id is not None, "a pod has a node"
    machine = seen.machines.get(fleet.name_of_node(tx, workload.node_id) or "")
    if machine is None:
        return waiting
    run = runs.of_pod(workload, machine, _public_keys(tx, workload), turn.holding.start)
    manifests = wanted.of(run, offer.terms)
    return Turn(turn.holding, turn.namespace, turn.name, turn.step, tenant=_tenant(tx, run, offer), manifests=manifests)


def _tenant(tx: Tx, run: Run, offer: Offer) -> list[Manifest]:
    instance, organization_id = offer.terms.instance, run.organization_id
    (gpus,) = quotas.standings(tx, organization_id, [quotas.GPUS])
    return [
        tenants.namespace(instance, organization_id, privileged=offer.terms.privileged_allowed),
        *([] if offer.account is None else [tenants.role_binding(instance, organization_id, offer.account)]),
        tenants.quota(instance, organization_id, gpus.limit, offer.resources),
        tenants.network_policy(instance, organization_id, offer.gateway),
    ]


def _public_keys(tx: Tx, workload: Workload) -> list[str]:
    attached = {each.ssh_key_id for each in ATTACHED.all(tx, workload_id=workload.id)}
    return [key.public_key for key in KEYS.all(tx, organization_id=workload.organization_id) if key.id in attached]
