"""Carries out what happens to replicas, of clusters and deployments alike: placing, checks, loss, replacement."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Generic, Protocol, TypeVar

from relay_localcloud.capacity import addresses, claims
from relay_localcloud.capacity.claims import no_room
from relay_localcloud.capacity.placement import Demand
from relay_localcloud.capacity.vacancies import Queue, announce_vacancy
from relay_localcloud.kernel.due import DueHandler, DueItem
from relay_localcloud.kernel.rows import Rows
from relay_localcloud.kernel.store import Tx
from relay_localcloud.money import billing
from relay_localcloud.money.billing import Billed
from relay_localcloud.replicas import filling
from relay_localcloud.replicas.rows import Replica
from relay_localcloud.replicas.states import (
    REPLICA_TRANSITIONS,
    SHOWN_AS,
    SILENT,
    ReplicaEffect,
    ReplicaMove,
    ReplicaState,
    ReplicaTrigger,
)
from relay_localcloud.replicas.steps import Intent, Member, Steps, next_steps
from relay_localcloud.runtimes.runtime import Facts, Wanted
from relay_wire.events import EventType

_EVENTS: Final[Mapping[ReplicaEffect, EventType]] = {
    ReplicaEffect.TELL_HEALTHY: EventType.REPLICA_HEALTHY,
    ReplicaEffect.TELL_UNHEALTHY: EventType.REPLICA_UNHEALTHY,
    ReplicaEffect.TELL_TERMINATED: EventType.REPLICA_TERMINATED,
}


class Group(Protocol):
    """The fields of a cluster or deployment that its replicas depend on."""

    @property
    def sequence(self) -> int: ...
    @property
    def id(self) -> str: ...
    @property
    def organization_id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def gpu_model_id(self) -> str | None: ...
    @property
    def replica_price_cents(self) -> int:
        """Cents per hour."""
        ...

    @property
    def demand(self) -> Demand | None:
        """What each replica needs of a node; None if it takes no GPU."""
        ...

    @property
    def intent(self) -> Intent: ...


GroupT = TypeVar("GroupT", bound=Group)


@dataclass(frozen=True, slots=True)
class Replicas(Generic[GroupT]):
    """The replicas of clusters, or those of deployments, and what differs between the two."""

    noun: str
    rows: Rows[Replica]
    queue: Queue
    facts: Facts
    """The reports to each replica; without one for `stopped`, the group terminates its stopped replicas itself."""
    find: Callable[[Tx, str], GroupT | None]
    settle: Callable[[Tx, GroupT], GroupT]
    """Runs `fill`, then updates the group to match its replicas."""
    surplus: tuple[ReplicaTrigger, str | None] = (ReplicaTrigger.STOP, None)
    """The trigger for surplus replicas, and its reason."""
    stopping: str = ReplicaState.STOPPING.value
    """The status word of a stopping replica."""

    def of(self, tx: Tx, group_id: str) -> list[Replica]:
        """The live replicas of a group, the oldest first."""
        return self.rows.all(tx, group_id=group_id, terminated_at=None)

    def count(self, tx: Tx, group: GroupT) -> int:
        """The number of a group's live replicas."""
        return self.rows.count(tx, group_id=group.id, terminated_at=None)

    def on(self, tx: Tx, node_id: str) -> list[Replica]:
        """The live replicas on a node, the oldest first."""
        return self.rows.all(tx, node_id=node_id, terminated_at=None)

    def get(self, tx: Tx, replica_id: str) -> Replica | None:
        """A live replica by its id; None if there is none."""
        return self.rows.find(tx, id=replica_id, terminated_at=None)

    def shown_status(self, replica: Replica) -> str:
        """The status word that the API shows."""
        shown = {**SHOWN_AS, ReplicaState.STOPPING: self.stopping}
        return shown.get(replica.status, replica.status.value)

    def staying(self, tx: Tx, group: GroupT) -> int:
        """The number of a group's live replicas that are not stopping."""
        return sum(replica.status is not ReplicaState.STOPPING for replica in self.of(tx, group.id))

    def require_more(self, tx: Tx, group: GroupT, had: int) -> None:
        """Refuse with a capacity code if more than `had` replicas were wanted, and none of the new ones found room."""
        if group.intent.wanted > had and self.staying(tx, group) <= had:
            demand = group.demand
            raise addresses.none_free(tx) if demand is None or not addresses.is_one_free(tx) else no_room(tx, demand)

    def apply(
        self,
        tx: Tx,
        group: GroupT,
        replica: Replica,
        trigger: ReplicaTrigger,
        reason: str | None = None,
        at: int | None = None,
    ) -> None:
        """Do to one replica what the table says; the caller settles the group."""
        self.apply_to(tx, group, [replica], trigger, reason, at)

    def apply_to(
        self,
        tx: Tx,
        group: GroupT,
        replicas: Iterable[Replica],
        trigger: ReplicaTrigger,
        reason: str | None = None,
        at: int | None = None,
    ) -> None:
        """Do to several replicas what the table says; for all at once, billing ends, and what they held is given back.

        `at` is when it happened, if a runtime knows that.
        """
        found = ((replica, REPLICA_TRANSITIONS.get((replica.status, trigger))) for replica in replicas)
        moves = [(replica, move) for replica, move in found if move is not None]
        stopped = [replica.id for replica, move in moves if ReplicaEffect.STOP_BILLING in move.effects]
        billing.stop_billing(tx, group.organization_id, *stopped, ended_at=at)
        for replica, move in moves:
            if ReplicaEffect.START_BILLING in move.effects:
                billing.start_billing(tx, self._billed(group, replica), at, wanted_at=replica.changed_at)
            self._carry_out(tx, group, replica, move, reason)
        self._give_back(tx, group, [replica.id for replica, move in moves if ReplicaEffect.GIVE_BACK in move.effects])

    def _carry_out(self, tx: Tx, group: GroupT, replica: Replica, move: ReplicaMove, reason: str | None) -> None:
        after = replace(replica, status=move.to)
        for effect in move.effects:
            self._do(tx, group, after, effect, reason)
        if move.to is replica.status:
            return
        if move.to is ReplicaState.TERMINATED:  # nothing reads a terminated replica
            self.rows.remove(tx, id=replica.id)
            return
        healthy = move.to is ReplicaState.HEALTHY
        failing = SHOWN_AS.get(move.to, move.to) == ReplicaState.UNHEALTHY
        self.rows.change(
            tx,
            replica.id,
            status=move.to,
            changed_at=tx.now,
            replacement_due=replica.replacement_due and move.to in SILENT,
            consecutive_failures=replica.consecutive_failures + 1 if failing else 0,
            checked_at=tx.now if healthy or failing else replica.checked_at,
            started_at=tx.now if healthy and replica.started_at is None else replica.started_at,
            reason=None if healthy or move.to in SILENT else replica.reason,
        )

    def to_all(self, tx: Tx, group: GroupT, trigger: ReplicaTrigger, reason: str | None = None) -> None:
        """Apply a trigger to every live replica of a group."""
        self.apply_to(tx, group, self.of(tx, group.id), trigger, reason)

    def to_those_on(
        self, tx: Tx, node_id: str, trigger: ReplicaTrigger, reason: str | None, at: int | None
    ) -> list[str]:
        """Apply a trigger to every live replica on a node; returns the ids of the groups, which the caller settles."""
        by_group: defaultdict[str, list[Replica]] = defaultdict(list)
        for replica in self.on(tx, node_id):
            by_group[replica.group_id].append(replica)
        for group_id, replicas in by_group.items():
            self.apply_to(tx, self._found(tx, group_id), replicas, trigger, reason, at)
        return list(by_group)

    def grace_over(self, tx: Tx, node_id: str) -> None:
        """Replace the lost replicas of a node that is still silent, as far as there is room elsewhere."""
        lost = [replica for replica in self.on(tx, node_id) if replica.status in SILENT]
        for replica in lost:
            self.rows.change(tx, replica.id, replacement_due=True)
        self.settle_all(tx, [replica.group_id for replica in lost])

    def settle_all(self, tx: Tx, group_ids: Iterable[str]) -> None:
        """Settle each of the groups once."""
        for group_id in dict.fromkeys(group_ids):
            self.settle(tx, self._found(tx, group_id))

    def fill(self, tx: Tx, group: GroupT) -> list[Replica]:
        """Drain, place and replace what can be now, and wait for room for the rest; returns the live replicas."""
        members = self.of(tx, group.id)
        steps = next_steps(group.intent, [_member(group, replica) for replica in members])
        if steps == Steps():
            self.wait_no_longer(tx, group)
            return members
        by_id = {replica.id: replica for replica in members}
        self.apply_to(tx, group, [by_id[replica_id] for replica_id in steps.drained], *self.surplus)
        wanted = steps.missing + len(steps.overdue)
        placed = self._place(tx, group, wanted)
        replaced = [by_id[replica_id] for replica_id in steps.overdue[: max(0, placed - steps.missing)]]
        self.apply_to(tx, group, replaced, ReplicaTrigger.TERMINATE, "Replaced: it cannot run on its node.")
        if placed < wanted:
            self.queue.join(tx, group.sequence, group.id, group.gpu_model_id)
        else:
            self.wait_no_longer(tx, group)
        return self.of(tx, group.id)

    def wait_no_longer(self, tx: Tx, group: GroupT) -> None:
        """Leave the queue for room."""
        self.queue.leave(tx, group.id)

    def handlers(self) -> Mapping[str, DueHandler]:
        """The handlers of this kind's due items."""
        told = {self.facts.started: ReplicaTrigger.STARTED, self.facts.stopped: ReplicaTrigger.TERMINATE}
        facts = {kind: self._at(trigger) for kind, trigger in told.items() if kind is not None}
        return {self.queue.fill: self._room_was_freed, self._settles: self._settle_later, **facts}

    @property
    def _settles(self) -> str:
        """The kind of the due item that settles a group after all that happens to its replicas at one instant."""
        return f"{self.noun}.settle"

    def _settle_later(self, tx: Tx, item: DueItem) -> None:
        group = self.find(tx, item.subject)
        if group is not None:
            self.settle(tx, group)

    def _place(self, tx: Tx, group: GroupT, count: int) -> int:
        """Place and start up to `count` more replicas; returns how many found room."""
        demand, intent = group.demand, group.intent
        ids = [tx.new_id("rep") for _ in range(min(count, addresses.free(tx)))]
        homes = [None] * len(ids) if demand is None else claims.claim_each(tx, demand, group.id, ids)
        placed = dict(zip(ids, homes, strict=False))
        addresses.take(tx, *placed)
        same = {
            "group_id": group.id,
            "status": ReplicaState.PROVISIONING,
            "generation": intent.generation,
            "engine_image": intent.engine_image,
            "created_at": tx.now,
            "changed_at": tx.now,
        }
        self.rows.insert_all(tx, ({"id": each, "node_id": home, **same} for each, home in placed.items()))
        for replica_id in placed:
            tx.runtime.want(self.facts, replica_id, Wanted.STARTED)
        return len(placed)

    def _do(self, tx: Tx, group: GroupT, replica: Replica, effect: ReplicaEffect, reason: str | None) -> None:
        match effect:
            case ReplicaEffect.START_BILLING | ReplicaEffect.STOP_BILLING:
                pass  # `apply_to` does both, and ends it for all replicas at once
            case ReplicaEffect.GIVE_BACK:
                tx.runtime.want(self.facts, replica.id, Wanted.DELETED)  # `apply_to` gives back what it held
            case ReplicaEffect.WANT_STARTED:
                tx.runtime.want(self.facts, replica.id, Wanted.STARTED)
            case ReplicaEffect.WANT_RESTARTED:
                tx.runtime.want(self.facts, replica.id, Wanted.RESTARTED)
            case ReplicaEffect.WANT_STOPPED:
                tx.runtime.want(self.facts, replica.id, Wanted.STOPPED)
            case ReplicaEffect.TELL_HEALTHY | ReplicaEffect.TELL_UNHEALTHY | ReplicaEffect.TELL_TERMINATED:
                self._tell(tx, group, replica, _EVENTS[effect], reason)

    def _billed(self, group: GroupT, replica: Replica) -> Billed:
        return Billed(
            organization_id=group.organization_id,
            holder_id=replica.id,
            resource_id=group.id,
            kind=self.noun,
            name=group.name,
            gpu_model_id=group.gpu_model_id,
            rate_cents=group.replica_price_cents,
            node_id=replica.node_id,
        )

    def _give_back(self, tx: Tx, group: GroupT, replica_ids: Sequence[str]) -> None:
        if not replica_ids:
            return
        addresses.give_back(tx, *replica_ids)
        claims.release(tx, *(each for each in replica_ids if not tx.runtime.lingers(each)))
        if group.gpu_model_id is not None:
            announce_vacancy(tx, group.gpu_model_id)

    def _tell(self, tx: Tx, group: GroupT, replica: Replica, event: EventType, reason: str | None) -> None:
        named = {f"{self.noun}Id": group.id, "organizationId": group.organization_id, "name": group.name}
        said = {"replicaId": replica.id, "status": self.shown_status(replica), "reason": reason}
        tx.emit(group.organization_id, event.value, {**named, **said})

    def _at(self, trigger: ReplicaTrigger) -> DueHandler:
        def at(tx: Tx, item: DueItem) -> None:
            replica = self.get(tx, item.subject)
            group = None if replica is None else self.find(tx, replica.group_id)
            if replica is not None and group is not None:
                self.apply(tx, group, replica, trigger)
                tx.schedule(tx.now, self._settles, group.id)

        return at

    def _room_was_freed(self, tx: Tx, item: DueItem) -> None:
        filling.serve(tx, item, self.queue, partial(self._found, tx), partial(self.settle, tx))

    def _found(self, tx: Tx, group_id: str) -> GroupT:
        group = self.find(tx, group_id)
        assert group is not None, "what has live replicas, or waits for room, is live"
        return group


def _member(group: Group, replica: Replica) -> Member:
    outdated = replica.generation < group.intent.generation
    return Member(replica.id, replica.status, is_outdated=outdated, is_overdue=replica.replacement_due)
