"""One turn of one holder: compare its row and Pod, report facts, decide the step; all in one transaction."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from relay_localcloud.capacity import catalog, claims, nodes
from relay_localcloud.capacity.vacancies import announce_vacancy
from relay_localcloud.kernel.store import Tx
from relay_localcloud.kernel.vault import Vault
from relay_localcloud.quotas import quotas
from relay_localcloud.runtimes.kubernetes import (
    facts,
    fleet,
    holders,
    holdings,
    stops,
    tenants,
    virtual_machines,
    wanted,
)
from relay_localcloud.runtimes.kubernetes.facts import (
    Awaited,
    CannotStart,
    Cordoned,
    Deleted,
    Exited,
    Fact,
    Failed,
    FoundRunning,
    Gone,
    NotMade,
    Started,
    TakenOff,
    Vanished,
)
from relay_localcloud.runtimes.kubernetes.holders import NO_VOLUMES, Holder, Impossible
from relay_localcloud.runtimes.kubernetes.holdings import HOLDINGS, Holding, Standing
from relay_localcloud.runtimes.kubernetes.names import ALONE, name_of, namespace_of
from relay_localcloud.runtimes.kubernetes.nodes import free_on
from relay_localcloud.runtimes.kubernetes.observed import Event, Pod
from relay_localcloud.runtimes.kubernetes.runs import Machine
from relay_localcloud.runtimes.kubernetes.situations import STEPS, Situation, Step, holder_of, situation, start_of
from relay_localcloud.runtimes.kubernetes.tenants import Account, Gateway, Manifest
from relay_localcloud.runtimes.kubernetes.wanted import Terms
from relay_localcloud.runtimes.runtime import Noun

_NO_PRIVILEGE: Final = "privileged: the administrator of this cloud allows no privileged containers."
NO_VMS: Final = (
    "VMs are not offered here, since this cloud runs containers on Kubernetes: create a pod (POST /v1/pods)."
)
NO_SNAPSHOTS: Final = "Snapshots are not offered here: copy what matters off /workspace from inside the pod."
_NO_CONTAINERS: Final = "Pods are not offered here: all GPUs of this cloud are passed through to VMs."
_NOT_OFFERED: Final[Mapping[Noun, str]] = {
    Noun.KERNEL_MODULE: "kernelModules: ask the administrator of this cloud's nodes to load modules into kernels.",
    Noun.TRANSFER: "A pod does not change its organization here, since its volume does not: create another one there.",
}
TAKEN = "There is a Pod of this name that is not this cloud's: its administrator must take it away."
_VANISHED = "Its Pod was deleted."
_VOLUME_LOST = (
    "Its volume was deleted from the cluster, and what was on it is lost: a restart begins with an empty one."
)
_STAYS = frozenset({Situation.PRESENT, Situation.LATER})
_CORDONED = frozenset({Situation.CLOSED, Situation.UNPLACED})


@dataclass(frozen=True, slots=True)
class Offer:
    """What holds for everything that runs on a cluster: the terms, the gateway, and the resources that quotas count.

    `cluster` is its name; what has no node runs on the cluster `first`. `vault` decrypts registry credentials.
    `account` is the ServiceAccount of a cloud inside the cluster; None outside, where the kubeconfig grants all rights.
    """

    terms: Terms
    gateway: Gateway
    resources: Sequence[str]
    vault: Vault
    account: Account | None = None
    cluster: str = ALONE
    first: str = ALONE


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known of a cluster now: reporting Nodes by name, Pods by namespace and name, Events by namespace and uid.

    `pods_on` has the Pods on a Node, by its name; `may_run` is about the Pods of every cluster. `wall` is the machines'
    clock, by which clusters write times: the cloud's may lag behind it, or be ahead. `cordoned` has names of machines;
    `closed`: cordons keep all off that has no node of the cloud. `away_since` is when the cluster was last followed
    before a Pod may have gone unseen: by a former process, at the first turn of each holder, or before a list that
    lacks its Pod.
    """

    machines: Mapping[str, Machine]
    pod: Callable[[str, str], Pod | None]
    pods_on: Callable[[str], Iterable[Pod]]
    events: Callable[[str, str], Iterable[Event]]
    may_run: stops.MayRun
    wall: Callable[[], int]
    cordoned: Collection[str] = ()
    closed: bool = False
    away_since: int | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """What is to be done for a holder; MAKE creates `tenant` and then `manifests`, each in order.

    `leaves`: it is to run on another cluster, once nothing of it is left on this one. `at` is when this was decided, on
    the cloud's clock.
    """

    holding: Holding
    namespace: str
    name: str
    step: Step
    uid: str = ""
    tenant: Sequence[Manifest] = ()
    manifests: Sequence[Manifest] = ()
    leaves: bool = False
    at: int = 0


def lacking(terms: Terms) -> Mapping[Noun, str]:
    """Why a cluster does not support some nouns, and what to use instead.

    VMs and snapshots need more, which a cluster may get later.
    """
    without_containers = {} if catalog.models_cheapest_first() else {Noun.POD: _NO_CONTAINERS}
    without_volumes = {} if terms.storage_class is not None else dict.fromkeys((Noun.POD, Noun.VM), NO_VOLUMES)
    without_privilege = {} if terms.privileged_allowed else {Noun.PRIVILEGE: _NO_PRIVILEGE}
    return {**_NOT_OFFERED, **without_containers, **without_volumes, **without_privilege}


def take(tx: Tx, holder_id: str, seen: Seen, offer: Offer) -> Turn | None:
    """Report to the row what its Pod shows, and decide the step; None if the holder has no objects on this cluster."""
    holding, holder = HOLDINGS.find(tx, id=holder_id), holders.find(tx, holder_id)
    if holding is None:
        return None
    organization_id = holding.organization_id if holder is None else holder.organization_id
    if organization_id is None:
        stops.look(tx, holding, seen.may_run)
        return None
    wanted_on = _wanted_on(tx, holder, holding, offer)
    if offer.cluster != (holding.cluster or wanted_on):
        return None
    holding = holdings.settle(tx, holding, organization_id, offer.cluster)
    namespace, name = namespace_of(organization_id), name_of(holding.id)
    pod = seen.pod(namespace, name)
    if wanted_on != offer.cluster:
        return _leaving(holding, namespace, name, pod, offer, seen.wall())
    if holder is not None:
        _tell(tx, holder, holding, pod, seen, offer)
        holding = HOLDINGS.find(tx, id=holder_id) or holding  # the facts may have changed what is wanted
    step = STEPS[holding.standing][_situation(tx, holder, holding, pod, seen, offer)]
    turn = Turn(holding, namespace, name, step, "" if pod is None else pod.metadata.uid, at=tx.now)
    if step is Step.SWEEP:
        _release_gpus(tx, holding.id)
    if step is Step.MAKE:
        turn = _making(tx, turn, seen, offer)
    return turn if turn.step is Step.MAKE else replace(turn, holding=_not_refused(tx, holding))


def _wanted_on(tx: Tx, holder: Holder | None, holding: Holding, offer: Offer) -> str:
    """The cluster of the holder's node; without one, the cluster that it is on, or the first."""
    node = None if holder is None else fleet.known_as(tx, holder.node_id)
    return (holding.cluster or offer.first) if node is None else node.cluster


def _leaving(holding: Holding, namespace: str, name: str, pod: Pod | None, offer: Offer, wall: int) -> Turn:
    """The turn of a holder whose node is on another cluster: all of it goes here, its volume too."""
    ended = replace(holding, standing=Standing.END)
    step = STEPS[Standing.END][situation(ended, pod, offer.terms.instance, wall)]
    return Turn(ended, namespace, name, step, "" if pod is None else pod.metadata.uid, leaves=True)


def _release_gpus(tx: Tx, holder_id: str) -> None:
    """Release the GPUs that the Pod of a holder that rests or has ended still used, if it had any."""
    claim = claims.CLAIMS.find(tx, holder_id=holder_id)
    if claim is not None:
        claims.release(tx, holder_id)
        announce_vacancy(tx, nodes.get(tx, claim.node_id).gpu_model_id)


def refused(tx: Tx, turn: Turn, words: str, *, is_final: bool) -> None:
    """Report to the row that the cluster does not do what is wanted; if such answers are final, it fails in time.

    They last for START_WITHIN then. An API server that fails itself, or whose webhooks do, may recover any time later.
    """
    holder, holding = _to_run(tx, turn), turn.holding
    if holder is None:
        return
    since = (holding.since or tx.now) if is_final else 0
    if since != holding.since:
        HOLDINGS.change(tx, holding.id, since=since)
    lasts = is_final and tx.now - since >= facts.START_WITHIN
    has_no_pod = turn.step is Step.MAKE
    if lasts:
        holder.tell(tx, [Failed(words, since if has_no_pod else None)])
    else:
        holder.tell(tx, [NotMade(words, turn.at) if has_no_pod else CannotStart(words)])


def unanswered(tx: Tx, turn: Turn) -> None:
    """Report to the row that its Pod may not have been created; nothing says that it will not be a moment later."""
    holder = _to_run(tx, turn) if turn.step is Step.MAKE else None
    if holder is not None:
        holder.tell(tx, [NotMade(None, turn.at)])


def lost_volume(tx: Tx, turn: Turn) -> None:
    """Report to the row that its volume is gone: it gets an empty one only if its owner starts it again."""
    holder = _to_run(tx, turn)
    if holder is not None:
        HOLDINGS.change(tx, turn.holding.id, had_pod=False)
        holder.tell(tx, [Failed(_VOLUME_LOST)])


def _to_run(tx: Tx, turn: Turn) -> Holder | None:
    """The holder if it is still to run as it was at this turn."""
    holding = HOLDINGS.find(tx, id=turn.holding.id)
    same = holding == turn.holding and turn.holding.standing is Standing.RUN
    return holders.find(tx, turn.holding.id) if same else None


def _not_refused(tx: Tx, holding: Holding) -> Holding:
    """The holding, without former refusals: only those of consecutive turns count together."""
    if holding.since:
        HOLDINGS.change(tx, holding.id, since=0)
    return replace(holding, since=0)


def _tell(tx: Tx, holder: Holder, holding: Holding, pod: Pod | None, seen: Seen, offer: Offer) -> None:
    wall = seen.wall()
    there = _situation(tx, holder, holding, pod, seen, offer)
    if holding.standing is not Standing.RUN:
        holder.tell(tx, _at_rest(holding, pod, there, wall))
        return
    reports = _reports(tx, holder, seen, offer)
    if (there in _CORDONED or not reports) and holding.rejected_since is not None:
        HOLDINGS.change(tx, holding.id, rejected_since=None)
    if pod is None or there in {Situation.FOREIGN, Situation.UNPLACED}:
        if holding.uid is not None:
            HOLDINGS.change(tx, holding.id, uid=None)
        holder.tell(tx, _without_pod(tx, holder, holding, there, seen))
        return
    if there is Situation.LATER:
        holding = HOLDINGS.changed(tx, holding, start=start_of(pod))  # from now on, what is wanted is about this start
    if not reports:
        return
    if start_of(pod) < holding.start:
        late = [facts.on_cloud(fact, ahead(tx, wall)) for fact in facts.stuck(pod, wall)]
        holder.tell(tx, late or [Awaited()])
        return
    known = holdings.exits_of(holding)
    told = facts.of_pod(pod, [*seen.events(pod.metadata.namespace, pod.metadata.uid)], known, wall)
    uid = pod.metadata.uid if there in _STAYS else None
    since = _rejected_since(tx, holding, told)
    holdings.saw(tx, holding, start_of(pod), uid, facts.last_exits(pod, known), since)
    new = [facts.on_cloud(fact, ahead(tx, wall)) for fact in told if fact not in known]
    holder.tell(tx, facts.bounded(new, since, tx.now))


def _situation(tx: Tx, holder: Holder | None, holding: Holding, pod: Pod | None, seen: Seen, offer: Offer) -> Situation:
    cordoned = holder is not None and _is_cordoned(tx, holder, seen, offer)
    waits = pod is not None and pod.spec.node_name is None
    held = waits and holder is not None and _is_held(tx, holder)
    return situation(holding, pod, offer.terms.instance, seen.wall(), cordoned=cordoned, held=held)


def _is_cordoned(tx: Tx, holder: Holder, seen: Seen, offer: Offer) -> bool:
    if holder.node_id is None:
        return seen.closed
    machine = _machine_of(tx, holder, seen, offer) if seen.cordoned else None
    return machine is not None and machine.name in seen.cordoned


def _is_held(tx: Tx, holder: Holder) -> bool:
    return holder.node_id is not None and nodes.get(tx, holder.node_id).held_by_owner


def _at_rest(holding: Holding, pod: Pod | None, there: Situation, wall: int) -> Sequence[Fact]:
    """The facts about a holder that is not to run."""
    if STEPS[holding.standing][there] is Step.SWEEP:
        return [Gone()]
    if holding.standing is Standing.END or pod is None:
        return []
    later = there is Situation.LATER and pod.metadata.deletion_timestamp is None
    return [FoundRunning()] if later else facts.stuck(pod, wall)


def ahead(tx: Tx, wall: int) -> int:
    """How far the cloud's clock is ahead of the machines'; 0 if it lags behind after a gap.

    What began then seems to have begun in the future, so it counts from now on, and the gap is not billed.
    """
    return max(0, tx.now - wall)


def _rejected_since(tx: Tx, holding: Holding, told: Sequence[Fact]) -> int | None:
    if any(isinstance(fact, Started | Exited) for fact in told):
        return None
    return holding.rejected_since or (tx.now if any(isinstance(fact, TakenOff) for fact in told) else None)


def _without_pod(tx: Tx, holder: Holder, holding: Holding, there: Situation, seen: Seen) -> Sequence[Fact]:
    if there is Situation.FOREIGN:
        return [CannotStart(TAKEN)]
    if there in _CORDONED:
        words = facts.ALL_CORDONED if holder.node_id is None else facts.CORDONED
        return [Cordoned(words, _ran_until(tx, holder, holding, seen))]
    had_one = holding.uid is not None
    if seen.away_since is not None:
        return [Vanished(_VANISHED if had_one else None, _ran_until(tx, holder, holding, seen))]
    return [Deleted(_VANISHED) if had_one else Awaited()]


def _ran_until(tx: Tx, holder: Holder, holding: Holding, seen: Seen) -> int | None:
    """Until when the container of a Pod that is gone is known to have run; None if nothing says so."""
    events = () if holding.uid is None else seen.events(namespace_of(holder.organization_id), holding.uid)
    killed_at = facts.killed_at(events)
    on_cloud = None if killed_at is None else killed_at + ahead(tx, seen.wall())
    return max((at for at in (seen.away_since, on_cloud) if at is not None), default=None)


def _reports(tx: Tx, holder: Holder, seen: Seen, offer: Offer) -> bool:
    """Whether the holder's node reports; the status of a Pod on a silent node is stale."""
    return holder.node_id is None or _machine_of(tx, holder, seen, offer) is not None


def _machine_of(tx: Tx, holder: Holder, seen: Seen, offer: Offer) -> Machine | None:
    """The Node that the holder was placed on; None if it is silent, or on another cluster by now."""
    node = fleet.known_as(tx, holder.node_id)
    return seen.machines.get(node.name) if node is not None and node.cluster == offer.cluster else None


def _making(tx: Tx, turn: Turn, seen: Seen, offer: Offer) -> Turn:
    """The turn with the objects to create; NOTHING while the holder's node is silent, or if it cannot run here."""
    waiting = replace(turn, step=Step.NOTHING)
    holder = holders.find(tx, turn.holding.id)
    assert holder is not None, "what is to run has a row"
    machine = _machine_of(tx, holder, seen, offer)
    if machine is None and holder.node_id is not None:
        return waiting
    if machine is not None:
        free = free_on(machine, _others(tx, turn, seen.pods_on(machine.name), offer))
        machine = replace(machine, free=free, held=_is_held(tx, holder))
    try:
        run = holder.run(tx, machine, turn.holding.start, offer.terms, offer.vault)
    except Impossible as why:
        holder.tell(tx, [Failed(str(why))])
        return waiting
    terms, boot = offer.terms, run.boot
    manifests = wanted.of(run, terms) if boot is None else virtual_machines.of(run, boot, terms)
    return replace(turn, tenant=tenant(tx, run.organization_id, offer), manifests=manifests)


def _others(tx: Tx, turn: Turn, pods: Iterable[Pod], offer: Offer) -> list[Pod]:
    """The Pods that other holders are to have; those of ended ones leave."""
    kept = []
    for pod in pods:
        holder_id = holder_of(pod, offer.terms.instance)
        holding = HOLDINGS.find(tx, id=holder_id) if holder_id != turn.holding.id else None
        if holding is not None and holding.standing is Standing.RUN:
            kept.append(pod)
    return kept


def tenant(tx: Tx, organization_id: str, offer: Offer) -> list[Manifest]:
    """The objects of an organization that precede its workloads, in the order of their creation."""
    instance = offer.terms.instance
    (gpus,) = quotas.standings(tx, organization_id, [quotas.GPUS])
    return [
        tenants.namespace(instance, organization_id, privileged=offer.terms.privileged_allowed),
        *([] if offer.account is None else [tenants.role_binding(instance, organization_id, offer.account)]),
        tenants.quota(instance, organization_id, gpus.limit, offer.resources),
        tenants.network_policy(instance, organization_id, offer.gateway),
    ]
