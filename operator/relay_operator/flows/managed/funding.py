"""Whether the object's own limit, and then the account's, allow the cost of what is about to be sent."""

from dataclasses import dataclass, replace
from typing import Final, Generic

from relay_client.errors import CloudError
from relay_operator.api.conditions import Reason
from relay_operator.api.meta import CreateIntent, ObjectMeta, Resource, rfc3339
from relay_operator.api.parts import Budget
from relay_operator.api.workload import ManagedStatus, PricedSpec, PricedStatus, SpecT, StatusT
from relay_operator.budgets.budgets import Budgets
from relay_operator.budgets.limits import can_fit
from relay_operator.budgets.lines import Age
from relay_operator.budgets.prices import DEAREST, Capacity, Pricing, quote
from relay_operator.engine.account import AccountReady, Accounts
from relay_operator.engine.actions import Stall, Wait
from relay_operator.engine.commitment import Commitment, aside
from relay_operator.flows.managed import predicates
from relay_operator.flows.managed.abilities import is_powered, is_priced
from relay_operator.flows.managed.actions import RESTART, START, STOP
from relay_operator.flows.managed.blue_green import beside, costs
from relay_operator.flows.managed.ending import legible
from relay_operator.flows.managed.resource import ExternalResource, ObsT, Progress
from relay_operator.flows.managed.subject import Subject


@dataclass(frozen=True, slots=True)
class Funded:
    """What budgets say, and what things cost."""

    refusal: Wait | Stall | None = None
    note: str = ""
    """The message about the refusal."""
    reserve: Commitment | None = None
    """What has to be recorded on the object before anything is sent."""
    price: int | None = None
    """Cents an hour of the present resource, if the cloud does not report them."""
    quote: int | None = None
    """Cents an hour of what is about to be sent, or of the whole resource once what is planned is done."""
    later: str = ""
    """Why the planned successor would not be created now."""
    excess: str = ""
    """By how much the present resource costs more than its own limit; empty if it does not."""
    asked: bool = False
    """Whether budgets granted something, or the object waits for that."""


_OF_POWER: Final = frozenset({"", STOP, START, RESTART})
"""Changes that keep the number of replicas."""
_RUNS: Final = frozenset({Progress.READY, Progress.DEGRADED})
UNLIMITED: Final = Funded()
"""Nothing limits the object, or nothing is to be sent."""


@dataclass(frozen=True, slots=True)
class Ahead:
    """What is about to be sent, or is planned."""

    pays: bool = False
    """It costs more than the present resource."""
    again: bool = False
    """Something that costs more follows soon."""
    anew: bool = False
    """A successor of the present resource, which ends first, is planned: nothing is granted yet."""
    change: str = ""
    """The name of the change in place."""
    beside: bool = False
    """It is created beside the present resource, which goes on costing."""


@dataclass(frozen=True, slots=True)
class Funding(Generic[SpecT, StatusT, ObsT]):
    """Applies budgets to one kind's objects.

    Reads the cloud's prices if a limit is set, if a plan is wanted, or if the cloud does not report a price.
    """

    resource: ExternalResource[SpecT, StatusT, ObsT]
    accounts: Accounts
    budgets: Budgets
    pricing: Pricing

    async def look(
        self,
        subject: Subject[SpecT, StatusT],
        intent: CreateIntent | None,
        observed: ObsT | None,
        model_id: str,
        ahead: Ahead,
    ) -> Funded:
        """What budgets say to what is ahead; `observed` is the present resource."""
        resource, obj, account = self.resource, subject.obj, subject.account
        planned = obj.metadata.plan_only
        limited = _own(obj) is not None or account.budget is not None
        if not is_priced(resource) or not legible(obj):
            return UNLIMITED
        has = None if observed is None else resource.untold(obj, observed)
        if not (limited or planned):
            return await self._price(account, has)
        if ahead.again and not planned:
            self.budgets.line_up(subject.key, _age(obj.metadata), account)
            return Funded(asked=True)
        try:
            prices = await self.pricing.of(account.cloud)
        except CloudError as error:
            self.accounts.failed(account, error)
            note = f"the cloud's prices cannot be read: {error.message}"
            unknown = Funded(Wait(Reason.PRICE_UNKNOWN), note, asked=not planned)
            if not (limited and (ahead.pays or ahead.anew)):
                return Funded(excess=self._excess(obj, observed, None))
            return _of_the_next(unknown, obj.status) if ahead.anew else unknown
        price = None if has is None else quote(prices, has)
        said = Funded(price=price, excess=self._excess(obj, observed, price))
        if not (ahead.pays or ahead.anew or planned):
            return said
        there, asked = None if ahead.anew or ahead.beside else observed, resource.capacity(obj, model_id)
        wanted = asked if there is None else resource.grown(obj, there)
        cents = quote(prices, wanted)
        said = replace(said, quote=cents if there is None else _at_least(cents, resource.locked(there), wanted))
        if limited and (ahead.pays or ahead.anew):
            present = [costs(self.resource, obj, observed, said.price)] if ahead.beside and observed is not None else []
            kept = beside(obj.status) + aside(present)
            runs = self._runs(obj, observed)
            grant = not (planned or ahead.anew)
            said = self._allowed(subject, wanted, said, kept, runs=runs, grant=grant)
            if account.budget is None or (said.reserve and _reserved(obj.status, intent).covers(said.reserve)):
                said = replace(said, reserve=None)
            said = _with_former_replicas(said, wanted, asked) if is_powered(resource) else said
        if ahead.anew:
            return _of_the_next(said, obj.status)
        left = wanted.replicas if ahead.change in _OF_POWER else asked.replicas
        return replace(said, quote=_share(said.quote, left, wanted.replicas))

    async def models(self, subject: Subject[SpecT, StatusT]) -> tuple[str, ...]:
        """The GPU models to try, in order: the first, and those of the others that fit into the limits."""
        obj, account = subject.obj, subject.account
        resource, named, own = self.resource, predicates.models_of(self.resource, obj), _own(obj)
        if len(named) < 2 or not is_priced(resource) or (own is None and account.budget is None):
            return named
        try:
            prices = await self.pricing.of(account.cloud)
        except CloudError:
            return named
        asked = ((model, resource.capacity(obj, model)) for model in named[1:])
        return (*named[:1], *(model for model, wanted in asked if _fits(own, account, wanted, quote(prices, wanted))))

    async def _price(self, account: AccountReady, has: Capacity | None) -> Funded:
        """The present resource's price, for information: if it is unreadable, nothing waits and the last one stays."""
        if has is None:
            return UNLIMITED
        try:
            return Funded(price=quote(await self.pricing.of(account.cloud), has))
        except CloudError:
            return UNLIMITED

    def _excess(self, obj: Resource[SpecT, StatusT], observed: ObsT | None, price: int | None) -> str:
        """What a limit that was lowered below the present price, or a price that rose, has to say."""
        own = _own(obj)
        if own is None or observed is None or not self._runs(obj, observed):
            return ""
        shown = obj.model_copy(update={"status": self.resource.status(obj, observed)})
        cents, _ = costs(self.resource, shown, observed, price)
        dear = _too_dear(own, cents or 0)
        return f"{dear}. It runs on, since the limit holds back creates, starts and growth alone" if dear else ""

    def _runs(self, obj: Resource[SpecT, StatusT], observed: ObsT | None) -> bool:
        """Whether what the object shows as being paid still is; without a present resource, that is the old one."""
        resource = self.resource
        if observed is None:
            return not obj.status.id
        return resource.progress(observed) in _RUNS or resource.status(obj, observed).state in resource.costs_early

    def _allowed(
        self,
        subject: Subject[SpecT, StatusT],
        wanted: Capacity,
        said: Funded,
        kept: Commitment,
        *,
        runs: bool,
        grant: bool,
    ) -> Funded:
        """`said` with a refusal, or with what is granted on top of `kept`; nothing is without `grant`.

        `runs`: the cloud shows that the present resource is being paid.
        """
        own, cents = _own(subject.obj), said.quote
        if cents is None:
            note = f"the cloud's catalog has no price for {wanted}"
            return replace(said, refusal=Stall(Reason.PRICE_UNKNOWN), note=note)
        if dear := _too_dear(own, cents, kept.cents):
            return replace(said, refusal=Stall(Reason.BUDGET_EXCEEDED), note=dear)
        need = Commitment(cents, wanted.gpus * wanted.replicas)
        ask = self.budgets.ask if grant else self.budgets.would_refuse
        if beyond := ask(subject.key, _age(subject.obj.metadata), subject.account, need + kept, runs=runs):
            return replace(said, refusal=Wait(Reason.WAITING_FOR_BUDGET), note=beyond, asked=True)
        return replace(said, reserve=need, asked=True) if grant else said


def _too_dear(own: Budget | None, cents: int, kept: int = 0) -> str:
    """How this, beside the `kept` cents of what it replaces, goes beyond the object's own limit; empty if it fits."""
    if own is None:
        return ""
    limit = own.max_price_per_hour_cents
    excess = cents + kept - limit
    old = f" and the one that it replaces costs {kept} cents/h" if kept else ""
    over = f"it costs {cents} cents/h{old}, and budget.maxPricePerHourCents is {limit}: {excess} too much"
    return over if excess > 0 else ""


def _fits(own: Budget | None, account: AccountReady, wanted: Capacity, cents: int | None) -> bool:
    """Whether the object may have this, if nothing else costs anything."""
    if cents is None or (own is not None and cents > own.max_price_per_hour_cents):
        return False
    return account.budget is None or can_fit(account.budget, Commitment(cents, wanted.gpus * wanted.replicas))


def _with_former_replicas(said: Funded, wanted: Capacity, asked: Capacity) -> Funded:
    """`said`, whose message about a limit tells of the replicas that a start brings back beyond those of the spec."""
    if not said.note or said.quote is None or wanted.replicas <= asked.replicas:
        return said
    more = (
        f"; that is for {wanted.replicas} replicas, since a start brings back those that it had, and only then can it "
        f"be scaled to {asked.replicas}: raise the limit for the start, or delete this object and create it again"
    )
    return replace(said, note=said.note + more)


def _of_the_next(said: Funded, status: ManagedStatus) -> Funded:
    """What exists ends first although the account's budget lacks room, which that makes, but for nothing else."""
    if said.refusal is None or status.replacing or said.refusal == Wait(Reason.WAITING_FOR_BUDGET):
        return replace(said, refusal=None, note="", later=said.note)
    return replace(
        said, note=f"{said.note}; the resource {status.id} is not ended before that", later=said.note, asked=False
    )


def _share(cents: int | None, replicas: int, of: int) -> int | None:
    return None if cents is None else cents * replicas // max(of, 1)


def _own(obj: Resource[SpecT, StatusT]) -> Budget | None:
    return obj.spec.budget if isinstance(obj.spec, PricedSpec) else None


def _at_least(cents: int | None, locked: int | None, wanted: Capacity) -> int | None:
    """The price, but at least the one that was locked at the create, if the catalog has become cheaper."""
    return cents if cents is None or locked is None else min(max(cents, locked * wanted.replicas), DEAREST)


def _age(metadata: ObjectMeta) -> Age:
    created = metadata.creation_timestamp
    return Age("" if created is None else rfc3339(created), metadata.uid, metadata.generation)


def _reserved(status: StatusT, intent: CreateIntent | None) -> Commitment:
    """What is reserved on the object, and is not over."""
    reserved = intent.reserved if intent is not None else None
    over = status.reservation_token if isinstance(status, PricedStatus) else None
    closed = intent is not None and not status.id and intent.token == status.create_token
    if reserved is None or reserved.token == over or closed:
        return Commitment()
    return Commitment(reserved.cents, reserved.gpus)
