"""Carries out what `transitions.py` decides: changes the row, claims and releases, bills, notifies."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from relay_localcloud.capacity import addresses, claims, nodes
from relay_localcloud.capacity.claims import saturated
from relay_localcloud.capacity.placement import SPOT, NodeRoom
from relay_localcloud.capacity.vacancies import announce_vacancy
from relay_localcloud.http.errors import ApiError
from relay_localcloud.http.outcomes import decided
from relay_localcloud.identity import organizations
from relay_localcloud.identity.notices import tell_owners
from relay_localcloud.kernel import counts
from relay_localcloud.kernel.counts import EVERYBODY, Counted, Totals
from relay_localcloud.kernel.due import DueHandler, DueItem
from relay_localcloud.kernel.instants import DAY
from relay_localcloud.kernel.store import Tx
from relay_localcloud.money import billing
from relay_localcloud.money.alarms import AT_ONCE, FUNDED_AGAIN, RAN_OUT
from relay_localcloud.quotas import quotas
from relay_localcloud.runtimes.runtime import Expected, Facts
from relay_localcloud.workloads import snapshots, vm_logs, workloads
from relay_localcloud.workloads.transitions import (
    HOLDS_GPUS,
    TRANSITIONS,
    Effect,
    Home,
    Move,
    Timer,
    Trigger,
    start_refusal,
)
from relay_localcloud.workloads.workloads import WORKLOADS, Workload
from relay_wire.events import EventType
from relay_wire.pods import PodStatus

TIMER: Final = "workload.timer"
"""The kind of a workload's only due item; its state gives the meaning."""

FACTS: Final = Facts(started=TIMER, stopped=TIMER)

RETENTION: Final = 7 * DAY

_HELD_BY_SILENCE: Final = "Its node does not report: it starts as soon as the node is back."


@dataclass(frozen=True, slots=True)
class Cause:
    """What triggered a move, what people are told about it, and when it happened if a runtime knows that."""

    trigger: Trigger
    reason: str | None = None
    at: int | None = None


def apply(tx: Tx, workload: Workload, trigger: Trigger, reason: str | None = None, at: int | None = None) -> Workload:
    """Make the move that the table gives; ApiError 409 if the state does not allow it. Returns the new workload."""
    move = decided(TRANSITIONS[workload.status, trigger])
    if trigger is Trigger.STOPPED:  # why it stopped was known when it began to
        reason = reason or workload.status_reason
    return workload if move is None else _carry_out(tx, workload, move, Cause(trigger, reason, at))


def _carry_out(tx: Tx, workload: Workload, move: Move, cause: Cause) -> Workload:
    for effect in move.effects:
        _EFFECTS[effect](tx, workload, cause)
    if move.to is PodStatus.TERMINATED:
        workloads.ENDED.one_ended(tx)
    expected = _awaited(tx, workload, move)
    out_of_funds_at = workload.out_of_funds_at if move.to is PodStatus.STOPPED else None
    if cause.trigger is Trigger.BALANCE_RAN_OUT:
        out_of_funds_at = tx.now
    return WORKLOADS.changed(
        tx,
        workload,
        status=move.to,
        status_reason=cause.reason,
        out_of_funds_at=out_of_funds_at,
        changed_at=tx.now,
        placed_at=expected.placed_at,
        due_at=expected.due_at,
        terminated_at=tx.now if move.to is PodStatus.TERMINATED else None,
    )


def _awaited(tx: Tx, workload: Workload, move: Move) -> Expected:
    if workload.due_at is not None and workload.due_at > tx.now:
        tx.cancel(TIMER, workload.id)
    expected = Expected() if move.wanted is None else tx.runtime.want(FACTS, workload.id, move.wanted)
    ends_at = _ENDS_AT[move.timer](tx, workload)
    if ends_at is None:
        return expected
    tx.schedule(ends_at, TIMER, workload.id)
    return Expected(due_at=ends_at)


def _unfunded_retention(_: Tx, workload: Workload) -> int | None:
    stopped_at = workload.out_of_funds_at
    return stopped_at + RETENTION if stopped_at is not None and workload.kind == workloads.POD else None


_ENDS_AT: Final[Mapping[Timer | None, Callable[[Tx, Workload], int | None]]] = {
    Timer.RETENTION: lambda tx, _: tx.now + RETENTION,
    Timer.RETENTION_IF_UNFUNDED: _unfunded_retention,
    None: lambda _, __: None,
}


def _claim_gpus(tx: Tx, workload: Workload, _: Cause) -> None:
    billing.require_funds(tx, workload.organization_id)
    quotas.require(tx, workload.organization_id, {quotas.GPUS: workload.gpu_count, quotas.USAGE_RECORDS: 1})
    if workload.node_id is None:
        require_cpu_slot(tx)
    else:
        _claim_at_home(tx, workload, workload.node_id)
    addresses.take(tx, workload.id)


_CPU_VMS: Final = "cpuVms"
_HOLDS: Final = ", ".join(sorted(repr(status.value) for status in HOLDS_GPUS))
_IS_CPU_VM: Final = f"{{row}}.kind = '{workloads.VM}' AND {{row}}.gpu_model_id IS NULL AND {{row}}.status IN ({_HOLDS})"
COUNTED: Final[Totals] = {_CPU_VMS: (Counted(workloads.workloads.name, _IS_CPU_VM, changes=("status",), owner=None),)}
"""The number of CPU VM slots in use."""


def require_cpu_slot(tx: Tx) -> None:
    """Refuse a CPU VM, which has no node, if all slots that a setting allows are in use."""
    if counts.of_organization(tx.connection, EVERYBODY).get(_CPU_VMS, 0) >= tx.settings.cpu_slots:
        raise saturated(tx, "INSUFFICIENT_CPU_CAPACITY", "All slots for CPU VMs are taken: try again later.")


def _room_at_home(tx: Tx, workload: Workload, node_id: str) -> NodeRoom:
    named, spot = workload.named_its_node, workload.tier == SPOT
    room = claims.room_at(tx.connection, node_id, workload.organization_id, named=named, spot=spot)
    assert room is not None, "a workload does not outlive its node"
    return room


def _claim_at_home(tx: Tx, workload: Workload, node_id: str) -> None:
    claims.release(tx, workload.id)  # those that its former run may use still
    room, node = _room_at_home(tx, workload, node_id), nodes.get(tx, node_id)
    hold = None if node.hold is None else node.status
    home = Home(node.reporting, room.placeable_count, node.infiniband_agent, hold)
    infiniband = bool(organizations.organization(tx, workload.organization_id)["infiniband"])
    refusal = start_refusal(home, workload.gpu_count, infiniband)
    if refusal is not None:
        raise ApiError(409, refusal.message, refusal.code)
    if workload.gpu_count:
        claims.claim(tx, room, workload.gpu_count, workload.id)


def found_running(tx: Tx, workload: Workload, reason: str) -> Workload:
    """Let a workload that runs although it should rest go on, unless others have its GPUs or all addresses by now."""
    if workload.status is PodStatus.STOPPING or (_has_its_gpus(tx, workload) and addresses.is_one_free(tx)):
        return apply(tx, workload, Trigger.FOUND_RUNNING, reason)
    return workload


def _has_its_gpus(tx: Tx, workload: Workload) -> bool:
    """Whether it can have its GPUs again: they may not have been released yet."""
    node_id = workload.node_id
    if node_id is None or claims.CLAIMS.find(tx, holder_id=workload.id) is not None:
        return True
    return claims.has_units(tx, _room_at_home(tx, workload, node_id), workload.gpu_count)


def _regain_gpus(tx: Tx, workload: Workload, _: Cause) -> None:
    if workload.node_id is not None and workload.status is not PodStatus.STOPPING:  # which still has them
        claims.release(tx, workload.id)
        claims.claim(tx, _room_at_home(tx, workload, workload.node_id), workload.gpu_count, workload.id)
        addresses.take(tx, workload.id)


def _leave_gpus(tx: Tx, workload: Workload, _: Cause) -> None:
    addresses.give_back(tx, workload.id)
    if not tx.runtime.lingers(workload.id):
        claims.release(tx, workload.id)
    if workload.gpu_model_id is not None:
        announce_vacancy(tx, workload.gpu_model_id)


def _start_billing(tx: Tx, workload: Workload, cause: Cause) -> None:
    billing.start_billing(tx, workload.billed, cause.at, wanted_at=workload.changed_at)


def _stop_billing(tx: Tx, workload: Workload, cause: Cause) -> None:
    if workload.status is PodStatus.RUNNING:
        billing.stop_billing(tx, workload.organization_id, workload.id, ended_at=cause.at)


def _send_email(tx: Tx, workload: Workload, cause: Cause) -> None:
    """E-mail the owners before the workload is deleted with its volume (section 3)."""
    subject = f"{workload.name} is being deleted"
    body = f"The {workload.kind} {workload.name} ({workload.id}) is being deleted with its volume. "
    tell_owners(tx, workload.organization_id, subject, body + (cause.reason or "It was terminated."))


def _delete_disk(tx: Tx, workload: Workload, _: Cause) -> None:
    if workload.kind == workloads.VM:
        snapshots.remove_all(tx, workload.id)
        vm_logs.remove_all(tx, workload.id)


def _tell(event: EventType, status: PodStatus) -> Callable[[Tx, Workload, Cause], None]:
    def tell(tx: Tx, workload: Workload, cause: Cause) -> None:
        data = {**workload.event_data, "status": status.value, "statusReason": cause.reason}
        tx.emit(workload.organization_id, event.value, data)

    return tell


_EFFECTS: Final[Mapping[Effect, Callable[[Tx, Workload, Cause], None]]] = {
    Effect.CLAIM_GPUS: _claim_gpus,
    Effect.REGAIN_GPUS: _regain_gpus,
    Effect.LEAVE_GPUS: _leave_gpus,
    Effect.START_BILLING: _start_billing,
    Effect.STOP_BILLING: _stop_billing,
    Effect.SEND_EMAIL: _send_email,
    Effect.BOOT: lambda tx, workload, _: vm_logs.boot(tx, workload),
    Effect.DELETE_DISK: _delete_disk,
    Effect.TELL_RUNNING: _tell(EventType.VM_RUNNING, PodStatus.RUNNING),
    Effect.TELL_STOPPED: _tell(EventType.VM_STOPPED, PodStatus.STOPPED),
    Effect.TELL_TERMINATED: _tell(EventType.VM_TERMINATED, PodStatus.TERMINATED),
}


def balance_ran_out(tx: Tx, organization_id: str) -> bool:
    """Stop running pods and VMs of an organization; the status of pods says when they will be deleted."""
    pods_end = f"{RAN_OUT} It is deleted with its volume 7 days after the stop unless funds are added."
    running = WORKLOADS.first(tx, AT_ONCE, workloads.RUNNING, organization_id=organization_id)
    for workload in running:
        apply(tx, workload, Trigger.BALANCE_RAN_OUT, pods_end if workload.kind == workloads.POD else RAN_OUT)
    return len(running) == AT_ONCE


def forget_who_ran_out(tx: Tx, workload: Workload, reason: str | None) -> None:
    """Keep a workload that the balance stopped for an unlimited time; `reason` is its new status reason."""
    WORKLOADS.change(tx, workload.id, out_of_funds_at=None, status_reason=reason)
    if workload.status is PodStatus.STOPPED:  # while it is stopping, the timer is for the stop
        WORKLOADS.change(tx, workload.id, due_at=None)
        tx.cancel(TIMER, workload.id)


def funded(tx: Tx, organization_id: str) -> bool:
    """Keep what the balance stopped, since there are funds again."""
    stopped = WORKLOADS.first(tx, AT_ONCE, workloads.OUT_OF_FUNDS, organization_id=organization_id, terminated_at=None)
    for workload in stopped:
        forget_who_ran_out(tx, workload, FUNDED_AGAIN)
    return len(stopped) == AT_ONCE


def _timer_ended(tx: Tx, item: DueItem) -> None:
    workload = workloads.find(tx, item.subject)
    if workload is not None and workload.status in _AT_TIMER:
        _AT_TIMER[workload.status](tx, workload)


def _start_ended(tx: Tx, workload: Workload) -> None:
    if workload.node_id is not None and not nodes.get(tx, workload.node_id).reporting:
        WORKLOADS.change(tx, workload.id, due_at=None, status_reason=_HELD_BY_SILENCE)
    else:
        apply(tx, workload, Trigger.STARTED)


def _retention_ended(tx: Tx, workload: Workload) -> None:
    if workload.out_of_funds_at is not None and billing.account(tx, workload.organization_id).is_funded:
        forget_who_ran_out(tx, workload, FUNDED_AGAIN)
        return
    reason = {
        PodStatus.STOPPED: "The balance ran out, and no funds were added within 7 days.",
        PodStatus.INTERRUPTED: "Its node did not come back within 7 days.",
    }[workload.status]
    apply(tx, workload, Trigger.RETENTION_OVER, reason)


_AT_TIMER: Final[Mapping[PodStatus, Callable[[Tx, Workload], object]]] = {
    PodStatus.DEPLOYING: _start_ended,
    PodStatus.STOPPING: lambda tx, workload: apply(tx, workload, Trigger.STOPPED),
    PodStatus.STOPPED: _retention_ended,
    PodStatus.INTERRUPTED: _retention_ended,
}


HANDLERS: Final[Mapping[str, DueHandler]] = {TIMER: _timer_ended}
