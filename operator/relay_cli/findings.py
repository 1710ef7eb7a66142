"""Turns what `kubectl relay doctor` saw of an account into findings. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from relay_cli.accounts import UrlNotAccepted
from relay_cli.failures import Failure
from relay_cli.kubectl import Forbidden
from relay_client import AnyOperation
from relay_operator.api.cloudaccount import AnyAccount
from relay_operator.api.cloudaccount_status import InUse
from relay_operator.api.conditions import Condition, ConditionType, Reason
from relay_operator.api.meta import Model
from relay_wire.account import Whoami
from relay_wire.webhooks import WebhookDelivery

CLOCKS_APART_SECONDS: Final = 30.0
"""Allows for the cloud's whole seconds and the duration of an answer."""
_SHOWN: Final = 3


class Verdict(StrEnum):
    """The meaning of a finding for users of the account."""

    OK = "ok"
    WARNING = "warning"
    WRONG = "wrong"


class Finding(Model):
    """The result of one check."""

    account: str
    check: str
    verdict: Verdict
    message: str


@dataclass(frozen=True, slots=True)
class Reached:
    """The cloud's URL answered; `ahead`: seconds by which its clock is ahead of this machine's, None if unknown."""

    ahead: float | None


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen of one account; a Failure says why a check failed, None means that it did not run."""

    account: AnyAccount
    url: Reached | Failure
    key: Whoami | Failure | None = None
    deliveries: Sequence[WebhookDelivery] | Failure | None = None
    """The newest first."""
    missing: Sequence[AnyOperation] | Failure | None = None
    """Operations in use that the cloud does not serve."""
    unseen: Sequence[str] = ()
    """Workloads of its namespace whose spec no operator has looked at."""
    unread: Sequence[str] = ()
    """Its workloads of which the cloud does not tell the operator."""


@dataclass(frozen=True, slots=True)
class _Need:
    """The purpose of a scope; `users` are the fields of `status.inUse` that count the objects which need it."""

    purpose: str
    users: tuple[str, ...] = ()


_NEEDS: Final[Mapping[str, _Need]] = {
    "vms:read": _Need("to look at pods and VMs", ("gpu_pods", "gpu_vms")),
    "vms:write": _Need("to create and end pods and VMs", ("gpu_pods", "gpu_vms")),
    "clusters:read": _Need("to look at clusters", ("gpu_clusters",)),
    "clusters:write": _Need("to create, scale and end clusters", ("gpu_clusters",)),
    "inference": _Need("for batches", ("inference_batches",)),
    "billing:read": _Need("for balance, burn and cost"),
}


def findings(seen: Seen) -> list[Finding]:
    """All findings, each after those that it depends on."""
    told = (
        *_account(seen.account),
        *_operator(seen),
        *_url(seen),
        *_key(seen),
        *_webhook(seen),
        *_operations(seen.missing),
    )
    name = str(seen.account.key)
    return [Finding(account=name, check=check, verdict=verdict, message=message) for check, verdict, message in told]


_Told = tuple[str, Verdict, str]


def _account(account: AnyAccount) -> Iterator[_Told]:
    ready, stalled, low = _conditions(account, ConditionType.READY, ConditionType.STALLED, ConditionType.FUNDS_LOW)
    if ready is None:
        text = "the operator has not looked at it: check that the operator runs and watches this namespace"
        yield "account", Verdict.WRONG, text
    else:
        told = stalled or ready  # Ready stays while the cloud is silent, and during deletion
        verdict = Verdict.OK if told is ready and ready.status == "True" else Verdict.WRONG
        yield "account", verdict, f"{told.reason}: {told.message}"
    if low is not None and low.status == "True":
        yield "funds", Verdict.WARNING, low.message


def _operator(seen: Seen) -> Iterator[_Told]:
    if seen.unseen:
        text = (
            f"no operator has looked at the present spec of {_some(seen.unseen)}: check that the operator runs, leads "
            "and watches this namespace, and that the cloud answers"
        )
        yield "operator", Verdict.WRONG, text
    if seen.unread:
        text = f"the cloud does not tell the operator of {_some(seen.unread)}: their conditions say what it answers"
        yield "operator", Verdict.WRONG, text


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"


def _url(seen: Seen) -> Iterator[_Told]:
    match seen.url:
        case UrlNotAccepted():
            yield "url", Verdict.WARNING, "it was not called: only the account names it"
        case Failure():
            ready, stalled = _conditions(seen.account, ConditionType.READY, ConditionType.STALLED)
            silent = seen.unread or (stalled is not None and stalled.reason == Reason.CLOUD_UNAVAILABLE)
            operators = ready is not None and ready.status == "True" and not silent
            beside = "; the operator reached it at its last look, so the address may not work from your machine"
            yield "url", Verdict.WARNING if operators else Verdict.WRONG, f"{seen.url}{beside if operators else ''}"
        case Reached(None):
            yield "url", Verdict.OK, "it answers"
            yield "clock", Verdict.WARNING, "the cloud's answer has no time"
        case Reached(float(ahead)):
            yield "url", Verdict.OK, "it answers"
            apart = abs(ahead) > CLOCKS_APART_SECONDS
            text = f"the cloud's clock is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} this machine's"
            yield "clock", Verdict.WARNING if apart else Verdict.OK, text


def _key(seen: Seen) -> Iterator[_Told]:
    if seen.key is None:
        return
    if isinstance(seen.key, Failure):
        unseen = isinstance(seen.key, Forbidden | UrlNotAccepted)
        yield "key", Verdict.WARNING if unseen else Verdict.WRONG, str(seen.key)
        return
    recorded, told = seen.account.status.organization_id, seen.key.organization_id
    if recorded and recorded != told:
        text = f"it belongs to {told}, but the account's objects are in {recorded}: put the former key back"
        yield "key", Verdict.WRONG, text
    else:
        yield "key", Verdict.OK, f"it belongs to {told} ({seen.key.organization_name or 'without a name'})"
    lacking = [scope for scope in _NEEDS if scope not in seen.key.scopes]
    in_use = seen.account.status.in_use or InUse()
    for scope in lacking:
        need = _NEEDS[scope]
        used = any(getattr(in_use, field) for field in need.users)
        yield "scopes", Verdict.WRONG if used else Verdict.WARNING, f"the key lacks {scope}, needed {need.purpose}"
    if not lacking:
        yield "scopes", Verdict.OK, "the key has all scopes for workloads, batches and the balance"


def _webhook(seen: Seen) -> Iterator[_Told]:
    spec, (condition,) = seen.account.spec.webhook, _conditions(seen.account, ConditionType.WEBHOOK_READY)
    if spec is not None and not spec.enabled:
        yield "webhook", Verdict.OK, "switched off by spec.webhook.enabled: the operator polls"
    elif condition is not None and condition.status != "True":
        yield "webhook", Verdict.WRONG, condition.message
    elif isinstance(seen.deliveries, Failure):
        yield "webhook", Verdict.WARNING, f"the cloud's deliveries cannot be listed: {seen.deliveries}"
    elif seen.deliveries is None:
        yield "webhook", Verdict.OK, "the operator reports no problem; deliveries were not checked"
    elif not seen.deliveries:
        yield "webhook", Verdict.WARNING, "the cloud has delivered nothing yet, so whether they arrive is unknown"
    else:
        yield _delivered(seen.deliveries[0])


def _delivered(newest: WebhookDelivery) -> _Told:
    when = f" at {newest.requested_at}" if newest.requested_at else ""
    if newest.status_code is not None and 200 <= newest.status_code < 300:
        return "webhook", Verdict.OK, f"the newest delivery{when} arrived"
    cause = newest.error or f"HTTP {newest.status_code}"
    text = f"the newest delivery{when} failed ({cause}): make sure that the cloud can reach RELAY_WEBHOOK_PUBLIC_URL"
    return "webhook", Verdict.WRONG, text


def _operations(missing: Sequence[AnyOperation] | Failure | None) -> Iterator[_Told]:
    if missing is None:
        return
    if isinstance(missing, Failure):
        yield "operations", Verdict.WARNING, str(missing)
        return
    for assumed, verdict in ((False, Verdict.WRONG), (True, Verdict.WARNING)):
        if rows := [f"{row.method} {row.path}" for row in missing if row.assumed is assumed]:
            yield "operations", verdict, f"the cloud does not serve {_some(rows)}"
    if not missing:
        yield "operations", Verdict.OK, "the cloud serves all operations that were checked"


def undocumented(paths: Mapping[str, Sequence[str]], operations: Sequence[AnyOperation]) -> list[AnyOperation]:
    """The operations that an OpenAPI document lacks; `paths` has the methods of each path, with any parameter names."""
    documented = {(method.upper(), _nameless(path)) for path, methods in paths.items() for method in methods}
    return [row for row in operations if (row.method, _nameless(row.path)) not in documented]


def _nameless(path: str) -> str:
    return re.sub(r"\{[^}]*\}", "{}", path)


def _conditions(account: AnyAccount, *types: ConditionType) -> list[Condition | None]:
    told = {one.type: one for one in account.status.conditions}
    return [told.get(each) for each in types]
