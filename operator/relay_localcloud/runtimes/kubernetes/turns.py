"""One look at one holder: its row, its Pod, what that tells, and what is to be done; all in one transaction."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from relay_localcloud.kernel.store import Tx
from relay_localcloud.quotas import quotas
from relay_localcloud.runtimes.kubernetes import facts, fleet, holdings, reports, runs, tenants, wanted
from relay_localcloud.runtimes.kubernetes.facts import CannotStart, Deleted, Fact, Failed, Gone
from relay_localcloud.runtimes.kubernetes.holdings import HOLDINGS, Holding, Standing
from relay_localcloud.runtimes.kubernetes.names import name_of, namespace_of
from relay_localcloud.runtimes.kubernetes.observed import Event, Pod
from relay_localcloud.runtimes.kubernetes.runs import Machine, Run
from relay_localcloud.runtimes.kubernetes.situations import STEPS, Situation, Step, situation, start_of
from relay_localcloud.runtimes.kubernetes.tenants import Gateway, Manifest
from relay_localcloud.runtimes.kubernetes.wanted import Terms
from relay_localcloud.workloads.ssh_keys import ATTACHED, KEYS
from relay_localcloud.workloads.workloads import POD, WORKLOADS, Workload

NO_VOLUMES = "Volumes are not offered here: the administrator of this cloud has named no storage class."
TAKEN = "There is a Pod of this name that is not this cloud's: its administrator must take it away."
_VANISHED = "Its Pod was deleted."
_STAYS = frozenset({Situation.PRESENT, Situation.LATER})


@dataclass(frozen=True, slots=True)
class Offer:
    """What holds for all that runs on a cluster: the terms, who reaches it, and the resources that are counted."""

    terms: Terms
    gateway: Gateway
    resources: Sequence[str]


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
        tenants.quota(instance, organization_id, gpus.limit, offer.resources),
        tenants.network_policy(instance, organization_id, offer.gateway),
    ]


def _public_keys(tx: Tx, workload: Workload) -> list[str]:
    attached = {each.ssh_key_id for each in ATTACHED.all(tx, workload_id=workload.id)}
    return [key.public_key for key in KEYS.all(tx, organization_id=workload.organization_id) if key.id in attached]
