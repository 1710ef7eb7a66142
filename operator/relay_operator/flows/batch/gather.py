"""The one place that reads: object, account, cloud and long work become `Facts`. It writes nothing."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from relay_client import Cloud, CloudError, CloudUnavailable, NoInferenceUrl, Unreadable
from relay_client.operations import GET_BATCH
from relay_operator.api import meta
from relay_operator.api.conditions import Reason
from relay_operator.api.inferencebatch import InferenceBatch, InferenceBatchStatus, PartStatus
from relay_operator.api.meta import CreateIntent, Identity, MalformedIntent, ObjectKey
from relay_operator.engine import identity
from relay_operator.engine.account import (
    NOT_ASKED,
    AccountReady,
    AccountRefused,
    Accounts,
    AccountWaiting,
    as_called,
    elsewhere,
    identity_in,
    not_served,
    out_of_funds,
    pinned,
    unguarded,
)
from relay_operator.engine.backoff import is_ahead
from relay_operator.engine.cache import Cache
from relay_operator.engine.conditions import is_unfunded
from relay_operator.engine.confirmation import ConfirmationDelays
from relay_operator.engine.fence import shared
from relay_operator.engine.flow import Turn
from relay_operator.engine.identity import Installation, Whose
from relay_operator.engine.queue import Priority
from relay_operator.engine.rules import Account
from relay_operator.flows.batch import predicates
from relay_operator.flows.batch.actions import Work
from relay_operator.flows.batch.facts import (
    BatchMemory,
    Facts,
    cancellable,
    ending_of,
    running,
    running_unseen,
    with_suspension,
)
from relay_operator.flows.batch.names import create_of
from relay_operator.flows.batch.plan import UNSEEN, BatchDemand, EndingState, Live, Phase, Round, Sight, Transfer, View
from relay_operator.flows.batch.polls import BatchPolls
from relay_operator.flows.batch.result import WorkResult
from relay_operator.flows.batch.tagged import is_about, of_part, place_of, tagged, unbelieved, whole
from relay_operator.flows.batch.transfers import Job, Transfers
from relay_wire.batches import FINAL, Batch, BatchCounts, BatchStatus

_WORK = {Phase.ACTIVE: Work.SEND, Phase.PUBLISHING: Work.PUBLISH, Phase.FINISHED: Work.CLEAR}
_CLOCKS_DIFFER = timedelta(days=1)
"""The most by which the cloud's clock may be behind."""
_AT_REST = frozenset({Phase.CLEARED, Phase.EXPIRED})


@dataclass(frozen=True, slots=True)
class _Sighted:
    """The result of a look at the cloud."""

    sight: Sight = Sight.CLEAR
    found: tuple[Batch, ...] = ()
    status: InferenceBatchStatus | None = None
    note: str = ""
    error: CloudError | None = None
    """Why the cloud, or one of the batches, could not be read; None if all could."""
    here: bool = False
    """Whether the cloud that was asked showed one of the recorded batches, with its tag."""


@dataclass(slots=True)
class Gatherer:
    """Gathers the facts of batches."""

    accounts: Accounts
    cache: Cache
    polls: BatchPolls
    transfers: Transfers
    clock: Callable[[], float]
    delays: ConfirmationDelays
    installation: Installation
    longest_wait: timedelta
    """The longest that a refused attempt waits."""

    async def gather(self, turn: Turn, obj: InferenceBatch, memory: BatchMemory) -> Facts:
        """Gather the facts for one pass over one object. Raises KubeError."""
        key, now = turn.key, turn.now
        written = CreateIntent.parse(obj.metadata.annotations.get(meta.CREATE_INTENT))
        intent = written if isinstance(written, CreateIntent) else _from_status(obj)
        view = replace(self._recorded(key, obj, written, now), outdated=bool(turn.outdated))
        if _needs_no_account(view):
            return Facts(key, obj, now, NOT_ASKED, view, obj.status, intent)
        # Batches live where they were sent, or may have been, whatever account the spec resolves to today.
        ref = pinned(obj.spec.account_ref, obj.status.account, intent if view.phase is not Phase.NEW else None)
        account = await self.accounts.resolve(obj.metadata.namespace, ref)
        if not isinstance(account, AccountReady):
            return Facts(key, obj, now, account, replace(view, account=Account.of(account)), obj.status, intent)
        if is_unfunded(obj.status.conditions) and not self.accounts.lacks_funds(account, key):
            view = replace(view, waiting=False)
        if (unfit := self._unfit(key, obj, account, view, intent)) is not None:
            return Facts(key, obj, now, unfit, replace(view, account=Account.of(unfit)), obj.status, intent)
        if intent is not None:
            here = identity_in(account, obj.metadata, key.kind, self.installation.name)
            intent = as_called(intent, account, here)
        if view.phase is Phase.ACTIVE and isinstance(written, MalformedIntent) and not obj.status.create_token:
            view = replace(view, sight=Sight.UNREADABLE)
            return Facts(key, obj, now, account, view, obj.status, intent, note=str(written))
        try:
            seen = _Sighted()
            if intent is not None and view.phase is Phase.ACTIVE:
                seen = await self._look(obj, intent, account.cloud, memory, exact=turn.priority < Priority.RETRY)
        except CloudError as error:
            seen = _Sighted(error=error)
        status = seen.status or obj.status
        if seen.error is not None:
            self.accounts.failed(account, seen.error)
            memory.unanswered += 1
            return _unseen(Facts(key, obj, now, account, view, status, intent, error=seen.error), memory)
        memory.unanswered = 0
        facts = Facts(key, obj, now, account, view, status, intent, seen.found, note=seen.note)
        facts = replace(facts, outdated=turn.outdated, unfunded=out_of_funds(self.cache.get(account.key)))
        return self._with_the_cloud(facts, seen, memory)

    def _unfit(
        self, key: ObjectKey, obj: InferenceBatch, account: AccountReady, view: View, intent: CreateIntent | None
    ) -> AccountRefused | AccountWaiting | None:
        """Why the account, although its key works, cannot be used for this object; None if it can."""
        refused = not_served(key, account, ending=view.deleting)
        if view.phase is Phase.NEW:
            why = unguarded(account.key, self.cache.get(account.key))
            return refused or (AccountWaiting(Reason.WAITING_FOR_ACCOUNT, why) if why else None)
        made_for = obj.status.identity or (intent.identity if intent is not None else None)
        cleared = view.phase is Phase.FINISHED and not obj.status.parts  # nothing is in the cloud
        unsent = predicates.nothing_sent(obj.status) and (view.phase is Phase.ACTIVE or cleared)
        called = None if unsent else account.endpoints.of(key.kind)
        foreign = elsewhere(made_for, account, called) or self._withheld(obj, made_for, account)
        return foreign or self._shared(key, obj) or refused

    def _recorded(
        self, key: ObjectKey, obj: InferenceBatch, written: CreateIntent | MalformedIntent | None, now: datetime
    ) -> View:
        """The view as far as the object itself shows it."""
        phase = predicates.phase(obj, written, now)
        is_copy = isinstance(written, CreateIntent) and bool(self.cache.creators(written.token, key))
        if obj.status.create_token is None and (is_copy or self._names_anothers(obj, written)):
            phase = Phase.NEW  # the intent of another object came with a copied manifest
        waits = is_ahead(obj.status.next_attempt_time, now, self.longest_wait)
        changed = obj.status.observed_generation != obj.metadata.generation
        return View(
            demand=predicates.demand(obj),
            finalizer=meta.FINALIZER in obj.metadata.finalizers,
            paused=obj.metadata.held,
            phase=phase,
            sight=Sight.UNSURE if phase is Phase.ACTIVE and predicates.unsettled(obj.status, written) else Sight.CLEAR,
            holds=predicates.holds(obj.status),
            rested=bool(obj.status.suspended) and obj.status.start_time is None,  # else it was resumed since
            waiting=waits and not changed and not _asked(obj),
            misplaced=predicates.fits_nowhere(obj.status) and not changed and not _asked(obj),
        )

    def _names_anothers(self, obj: InferenceBatch, written: CreateIntent | MalformedIntent | None) -> bool:
        """Whether the intent carries a name that this object cannot have given: an intent can be forged."""
        if not isinstance(written, CreateIntent):
            return False
        uid = written.identity.uid if written.identity is not None else obj.metadata.uid
        return not identity.gave(obj.metadata, uid, self.installation.name, written.name)

    def _withheld(self, obj: InferenceBatch, made_for: Identity | None, account: AccountReady) -> AccountRefused | None:
        """Why a former object's batches may not be taken over: the account must allow adoption."""
        mine = made_for is None or identity.whose(made_for, obj.metadata, self.installation.name) is Whose.OWN
        if mine or account.adoption_allowed:
            return None
        message = (
            f"its batches were created for a former object of this name, and {account.key} is shared: they are taken "
            "over if the account says allowAdoption"
        )
        return AccountRefused(Reason.ADOPTION_REFUSED, message)

    def _shared(self, key: ObjectKey, obj: InferenceBatch) -> AccountRefused | None:
        others = self.cache.others(key, obj.status.id, obj.status.create_token)
        if not others:
            return None
        what = obj.status.id or f"what was created with the token {obj.status.create_token}"
        return AccountRefused(Reason.IDENTITY_MISMATCH, shared(what, key, others))

    def _with_the_cloud(self, facts: Facts, seen: _Sighted, memory: BatchMemory) -> Facts:
        """The view with everything that the cloud showed."""
        if seen.here and not facts.outdated:  # an earlier release recorded no endpoint
            facts = replace(facts, status=facts.status.model_copy(update={"identity": facts.sent_for}))
        obj, status = facts.obj, facts.status
        untold = any(
            self.clock() - memory.cancelled.get(part.batch_id or "", float("-inf")) >= self.delays.termination
            for part in cancellable(status, memory)
        )
        live = Live.RUNNING if untold else Live.CANCELLING if running(status, memory) else Live.NONE
        if seen.sight in UNSEEN:
            live = _live_unseen(status, memory)
        ending, stands = ending_of(facts)
        state, came = self._transfer(facts)
        lacks = predicates.round_of(obj.spec, status, facts.now)
        view = replace(
            facts.view,
            sight=seen.sight,
            round=Round.UNPAID if lacks is Round.HELD and _asked(obj) else lacks,
            live=live,
            holds=predicates.holds(status),
            transfer=state,
            ending=stands,
        )
        return replace(facts, view=view, ending=ending, came=came)

    def _transfer(self, facts: Facts) -> tuple[Transfer, WorkResult | None]:
        job = job_of(facts)
        state = Transfer.IDLE if job is None else self.transfers.state(facts.key, job)
        return state, self.transfers.result(facts.key) if state is Transfer.DONE else None

    async def _look(
        self, obj: InferenceBatch, intent: CreateIntent, cloud: Cloud, memory: BatchMemory, *, exact: bool
    ) -> _Sighted:
        if intent.token != obj.status.create_token:
            return await self._search_all(obj, intent, cloud, memory)
        if lost := predicates.unanswered(obj.status):
            wanted = lost[0]
            listed = await tagged(cloud, obj, intent.token, (wanted,))
            found = of_part(wanted, listed, intent.token)
            if found is None:
                found = of_part(wanted, await whole(cloud, obj, listed), intent.token)
            return _Sighted(Sight.FOUND, (found,)) if found else self._not_seen(create_of(intent, wanted), memory)
        if forgotten := await self._forgotten(obj, intent, cloud, memory):
            return _Sighted(Sight.FOUND, forgotten)
        return await self._poll(obj, cloud, memory, exact=exact)

    async def _forgotten(
        self, obj: InferenceBatch, intent: CreateIntent, cloud: Cloud, memory: BatchMemory
    ) -> tuple[Batch, ...]:
        """All batches of the object if status lacks one of them, asked once before this process creates the first.

        A backup may have restored a status that is older than the batch. Of two batches of one part, one is a late
        create, which its account ends. Raises CloudError.
        """
        begins = not (obj.status.parts or obj.status.exhausted)
        if memory.knows_all or not (begins or predicates.unpaid(obj.status)):
            return ()
        recorded = {(part.round, part.part) for part in obj.status.parts or () if part.batch_id}
        try:
            unsent = (part for part in obj.status.parts or () if part.batch_id is None)
            listed = await tagged(cloud, obj, intent.token, unsent, since=intent.started_at - _CLOCKS_DIFFER)
            found = [each for each in await whole(cloud, obj, listed) if place_of(each, intent.token)]
        except NoInferenceUrl:
            return ()  # nothing can be created there, either
        memory.knows_all = all(place_of(batch, intent.token) in recorded for batch in found)
        return () if memory.knows_all else tuple(found)

    async def _search_all(
        self, obj: InferenceBatch, intent: CreateIntent, cloud: Cloud, memory: BatchMemory
    ) -> _Sighted:
        """Search for all batches with this token after a loss of status, once no create can still be under way."""
        found = tuple(await tagged(cloud, obj, intent.token))
        verdict = self._not_seen(intent.token, memory)
        if verdict.sight is Sight.ABSENT and found:
            return _Sighted(Sight.FOUND, found)
        return verdict

    def _not_seen(self, what: str, memory: BatchMemory) -> _Sighted:
        """Count one more complete list without the batch; several, late enough, prove its absence.

        What this process knows that it did not send is absent at once.
        """
        sure = what == memory.unsent or memory.lacks(what, self.clock(), self.delays) is None
        note = "the cloud's list of batches is read again, to be sure of what was created"
        return _Sighted(Sight.ABSENT if sure else Sight.UNSURE, note=note)

    async def _poll(self, obj: InferenceBatch, cloud: Cloud, memory: BatchMemory, *, exact: bool) -> _Sighted:
        live = predicates.live(obj.status)
        looked = await self.polls.look(cloud, [part.batch_id or "" for part in live], exact=exact)
        token, seen = obj.status.create_token or "", list[tuple[PartStatus, Batch]]()
        error = looked.error
        rows = [(part, looked.found[each]) for part in live if (each := part.batch_id or "") in looked.found]
        places = [(batch, (part.round, part.part)) for part, batch in rows if batch is not None]
        memory.shown.update(batch.id for batch, place in places if place_of(batch, token) == place)
        for part, batch in rows:
            if batch is not None and not is_about(part, batch, token):
                error = unbelieved(batch, GET_BATCH)
            elif batch is not None and _has_answers(part, batch):
                memory.missing.pop(batch.id, None)
                seen.append((part, batch))
            elif self._is_missing(part, memory):
                seen.append((part, batch or _gone(part)))
        here = any(batch is not None and batch.metadata is not None for batch in looked.found.values())
        return _Sighted(
            status=with_suspension(obj, predicates.refreshed(obj.status, seen), memory), error=error, here=here
        )

    def _is_missing(self, part: PartStatus, memory: BatchMemory) -> bool:
        """Whether to believe that the batch, or its answers, are not there: only if repeated, never at first.

        They are given up with all that they cost, so that takes as long as after an unknown create.
        """
        since = memory.missing.setdefault(part.batch_id or "", self.clock())
        return self.clock() - since >= max(self.delays.absence, self.delays.unknown)


def _unseen(facts: Facts, memory: BatchMemory) -> Facts:
    """The facts if the cloud cannot be read, which may still cancel batches."""
    ending, stands = ending_of(facts)
    if ending is not None and stands is EndingState.DUE and ending.reason == Reason.DEADLINE_EXCEEDED:
        stands = EndingState.NONE  # it may have completed in time
    may_cancel = isinstance(facts.error, CloudUnavailable | Unreadable)
    live = _live_unseen(facts.status, memory) if may_cancel else Live.NONE
    return replace(facts, view=replace(facts.view, sight=Sight.BLIND, live=live, ending=stands), ending=ending)


def _live_unseen(status: InferenceBatchStatus, memory: BatchMemory) -> Live:
    return Live.RUNNING if running_unseen(status, memory) else Live.NONE


def job_of(facts: Facts) -> Job | None:
    """The long work of the object's phase; None if it has none."""
    work = _WORK.get(facts.view.phase)
    obj = facts.obj
    return None if work is None else Job(obj.metadata.uid, work, obj.status.round or 1, obj.spec.output)


def _needs_no_account(view: View) -> bool:
    untouched = view.paused or view.phase in _AT_REST or (view.deleting and not view.finalizer)
    orphaned = view.demand is BatchDemand.DELETE_ORPHANING and view.sight is Sight.CLEAR
    let_go = view.demand is BatchDemand.DELETE_ABANDONING or orphaned
    return untouched or let_go or (view.phase is Phase.NEW and view.demand is not BatchDemand.EXIST)


def _asked(obj: InferenceBatch) -> bool:
    """Whether people request another attempt at once."""
    return obj.metadata.echo(meta.RECONCILE_AT) != obj.status.reconcile_at


def _from_status(obj: InferenceBatch) -> CreateIntent | None:
    """The intent rebuilt from status, if somebody removed the annotation."""
    status = obj.status
    if not status.create_token:
        return None
    return CreateIntent(
        token=status.create_token,
        name=status.cloud_name or obj.metadata.name[:63],
        attempt=1,
        spec_hash="",
        started_at=obj.metadata.creation_timestamp or datetime.now(UTC),
        account=f"{status.account.kind}/{status.account.name}" if status.account is not None else "",
        identity=status.identity,
    )


def _has_answers(part: PartStatus, batch: Batch) -> bool:
    """Whether a final batch has files with the answers and errors it counts (section 2: "once results are written").

    A refused batch says itself what is wrong. The counts may be late, too.
    """
    if batch.status not in FINAL:
        return True
    if predicates.is_contradictory(predicates.mirrored(part, batch)):
        return False
    counts, refused = batch.request_counts, batch.status == BatchStatus.FAILED
    answers = counts.completed <= 0 or batch.output_file_id is not None
    errors = counts.failed <= 0 or batch.error_file_id is not None or refused
    return answers and errors


def _gone(part: PartStatus) -> Batch:
    counts = BatchCounts(total=part.records, completed=part.completed, failed=part.failed)
    return Batch.model_construct(id=part.batch_id or "", status=predicates.GONE, request_counts=counts)
