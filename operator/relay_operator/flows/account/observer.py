"""One look at an account's organization: money, auto-recharge, webhook subscription."""

from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import TypeVar

from relay_client import (
    BadRequest,
    Cloud,
    CloudError,
    Conflict,
    Forbidden,
    Gone,
    NotFound,
    NotServed,
    PaymentRequired,
    Unauthorized,
    Unreadable,
)
from relay_client.errors import clause
from relay_client.operations import (
    GET_AUTO_RECHARGE,
    GET_BALANCE,
    GET_CURRENT_USAGE,
    GET_ORGANIZATION,
    PUT_AUTO_RECHARGE,
    UPDATE_ORGANIZATION,
)
from relay_kube.errors import Refused
from relay_kube.kube import Kube
from relay_operator.accounts.accounts import Accounts
from relay_operator.api.cloudaccount import AnyAccount, WebhookSpec, secret_namespace
from relay_operator.api.cloudaccount_status import WebhookStatus
from relay_operator.engine.fit_schema import fit_schema
from relay_operator.flows.account.report import OrganizationSeen
from relay_operator.webhooks.deliveries import why_missing
from relay_operator.webhooks.receiver import webhook_url
from relay_operator.webhooks.subscription import SecretNameTakenError, Subscribed, Subscriber, subscribe, unsubscribe
from relay_wire.billing import AutoRechargeUpdate, Balance
from relay_wire.orgs import OrganizationUpdate

ResultT = TypeVar("ResultT")

_REFUSALS = (BadRequest, Conflict, Forbidden, Gone, NotFound, PaymentRequired)
"""Refusals of a single request, which trying again soon would not change."""
_PREFIX_CHARS = 12


@dataclass(slots=True)
class _Parts:
    """The parts of one look, each of which may fail without the others."""

    notes: list[str] = field(default_factory=list)
    passing: list[str] = field(default_factory=list)
    """Notes on failures that may pass by themselves."""
    answered: bool = False
    """Whether the cloud itself answered to any part."""
    failed: CloudError | None = None
    """The last of these failures."""

    async def ask(self, call: Awaitable[ResultT], failing: str, *, shows_health: bool = False) -> ResultT | None:
        """The result of one part; None if it failed, which becomes a note.

        Raises Unauthorized, and any CloudError but a refusal of a part that `shows_health` of the cloud.
        """
        try:
            result = await call
        except Unauthorized:
            raise
        except CloudError as error:
            if shows_health and not isinstance(error, _REFUSALS):
                raise
            self.note(error, f"{failing}: {clause(error.message)}")
            return None
        self.answered = True
        return result

    def note(self, error: CloudError, text: str) -> None:
        """Note that a part failed."""
        if isinstance(error, _REFUSALS):
            self.notes.append(text)
            self.answered = self.answered or not isinstance(error, NotServed)
        else:
            self.passing.append(text)
            self.failed = error


@dataclass(frozen=True, slots=True)
class AccountObserver:
    """Looks at accounts, and keeps their subscription, auto-recharge and organization as the spec says."""

    kube: Kube
    accounts: Accounts
    """Informed as soon as a subscription exists, or is known to be impossible."""
    public_url: str
    """Where the cloud delivers webhooks; empty: no subscriptions."""

    async def look(self, account: AnyAccount, cloud: Cloud, *, read_only: bool) -> OrganizationSeen:
        """Look at the organization. Raises CloudError if the cloud is not well or refuses the key, and KubeError."""
        parts = _Parts()
        webhook, trouble = account.status.webhook, ""
        if not read_only:  # first, since creates wait for it
            webhook, trouble = await self._subscription(account, cloud, parts)
        if parts.failed is None:
            self.accounts.listening(account.key)
        missing = None
        if webhook is not None and webhook.id and parts.failed is None:
            missing = await why_missing(cloud, webhook.id, self.accounts.evidence(account.key))
        # The specification describes this route, and every cloud serves it: if it fails, the cloud is not well.
        balance = await parts.ask(_balance(cloud), "the balance cannot be read", shows_health=True)
        usage = await parts.ask(_assumed(cloud.call(GET_CURRENT_USAGE, large=True)), "the usage cannot be read")
        if usage is not None and usage.breakdown is None:
            parts.notes.append("what the usage was spent on cannot be read")
        if parts.failed is not None and not parts.answered:
            raise parts.failed
        if not read_only:
            await parts.ask(_recharge(account, cloud), "auto-recharge cannot be set")
            await parts.ask(self._organization(account, cloud), "the organization cannot be changed")
        notes, passing = tuple(parts.notes), tuple(parts.passing)
        advised = None if parts.failed is None else parts.failed.retry_after
        return OrganizationSeen(balance, usage, webhook, trouble, missing, notes, passing, retry_after=advised)

    async def end(self, account: AnyAccount, cloud: Cloud) -> None:
        """Remove the subscription of an account that is being deleted. Raises CloudError."""
        await unsubscribe(cloud, subscriber(account), webhook_url(self.public_url, account.key))
        self.accounts.webhook_secrets.drop(account.key)

    async def _organization(self, account: AnyAccount, cloud: Cloud) -> None:
        if account.spec.organization is None:
            return
        wanted = account.spec.organization.model_dump(exclude_none=True, by_alias=False)
        has = await cloud.call(GET_ORGANIZATION)
        if has.model_dump(include=set(wanted), by_alias=False) != wanted:
            await cloud.call(UPDATE_ORGANIZATION, OrganizationUpdate.model_validate(wanted))
        if (name := wanted.get("name", has.name)) is not None:
            self.accounts.organization_is_called(account.key, name)

    async def _subscription(self, account: AnyAccount, cloud: Cloud, parts: _Parts) -> tuple[WebhookStatus | None, str]:
        """The subscription, and why there is none although one is wanted."""
        who, url = subscriber(account), webhook_url(self.public_url, account.key)
        wanted = self.public_url and (account.spec.webhook or WebhookSpec()).enabled
        try:
            if not wanted:
                if account.status.webhook is not None:
                    await _assumed(self.end(account, cloud))
                return None, ""
            subscribed = await _assumed(subscribe(self.kube, cloud, who, url))
            parts.answered = True
        except SecretNameTakenError as taken:
            return None, str(taken)
        except Unauthorized:
            raise
        except _REFUSALS as refused:
            return None, refused.message
        except CloudError as error:
            known, trouble = account.status.webhook, f"the webhook subscription cannot be kept: {clause(error.message)}"
            parts.note(error, trouble)
            return known, "" if known is not None else trouble
        except Refused as refused:
            return None, f"the operator may not keep the signing secret in {who.namespace}/{who.secret_name}: {refused}"
        self.accounts.webhook_secrets.put(account.key, subscribed.secret)
        return _shown(who, subscribed, url), ""


async def _balance(cloud: Cloud) -> Balance:
    """The balance without the transactions, of which there may be many."""
    return (await cloud.call(GET_BALANCE, large=True)).model_copy(update={"transactions": []})


def subscriber(account: AnyAccount) -> Subscriber:
    """The account as a webhook subscriber."""
    return Subscriber(account.key, account.metadata.uid, secret_namespace(account))


def _shown(who: Subscriber, subscribed: Subscribed, url: str) -> WebhookStatus:
    told = {
        "id": subscribed.webhook_id,
        "url": url,
        "secret_prefix": subscribed.secret[:_PREFIX_CHARS],
        "secret_name": who.secret_name,
    }
    return WebhookStatus.model_validate(fit_schema(WebhookStatus, told))


async def _recharge(account: AnyAccount, cloud: Cloud) -> None:
    spec = account.spec.auto_recharge
    if spec is None:
        return
    wanted = AutoRechargeUpdate(
        enabled=spec.enabled, threshold_cents=spec.threshold_cents, amount_cents=spec.amount_cents
    )
    if (await cloud.call(GET_AUTO_RECHARGE)).model_dump() != wanted.model_dump():
        await cloud.call(PUT_AUTO_RECHARGE, wanted)


async def _assumed(call: Awaitable[ResultT]) -> ResultT:
    """The result of assumed operations, which the cloud may lack. Raises NotServed if the answer is not theirs."""
    try:
        return await call
    except Unreadable as error:
        raise NotServed(error.operation, error.message, status=error.status) from error
