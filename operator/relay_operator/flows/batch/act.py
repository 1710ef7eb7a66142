"""Carries out one action: at most one request that costs money, between the writes that must surround it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import assert_never

from pydantic import JsonValue

from relay_client import (
    Cloud,
    CloudError,
    Conflict,
    NotFound,
    Outcome,
    RateLimited,
    SourceStalled,
    Unreadable,
    Withheld,
)
from relay_client.operations import CANCEL_BATCH, CREATE_BATCH, GET_FILE
from relay_kube import errors as kube
from relay_kube.errors import KubeError
from relay_kube.kube import JsonObject
from relay_operator.api.conditions import Reason
from relay_operator.api.inferencebatch import InferenceBatch, PartStatus
from relay_operator.api.meta import CreateIntent, ObjectKey
from relay_operator.engine import finalizer
from relay_operator.engine.account import AccountReady, Accounts, identity_in
from relay_operator.engine.actions import Ignore, Nothing, Release, Wait
from relay_operator.engine.cache import Cache
from relay_operator.engine.fence import about_anothers, fence
from relay_operator.engine.identity import Installation
from relay_operator.engine.intent import cloud_name
from relay_operator.engine.object_writer import ObjectWriter
from relay_operator.engine.report import refusal
from relay_operator.flows.batch import actions, predicates
from relay_operator.flows.batch.absence import unless_absent
from relay_operator.flows.batch.actions import Action, Work
from relay_operator.flows.batch.destinations import Destinations
from relay_operator.flows.batch.facts import BatchMemory, Facts, cancellable, running_unseen
from relay_operator.flows.batch.files import clear, clear_results
from relay_operator.flows.batch.gather import job_of
from relay_operator.flows.batch.names import create_of, metadata_of, tag_of
from relay_operator.flows.batch.plan import UNSEEN, Sight
from relay_operator.flows.batch.publishing import Publishing, unpublished
from relay_operator.flows.batch.result import (
    Begun,
    CancelRefused,
    Hindered,
    NotPaid,
    Paid,
    Result,
    StoppedError,
    Unknown,
    Uploaded,
    WorkRefused,
    WorkResult,
    WorkTroubled,
    no_access,
)
from relay_operator.flows.batch.sending import Sending
from relay_operator.flows.batch.tagged import is_about, unbelieved
from relay_operator.flows.batch.transfers import Transfers
from relay_operator.records.ids import NoTemporarySpace
from relay_wire.batches import BatchCreate

logger = logging.getLogger(__name__)

_DROPPING = (
    Ignore,
    Release,
    actions.Rest,
    actions.Finish,
    actions.End,
    actions.BeginPublication,
    actions.Cancel,
)
"""Actions after which earlier long work is no longer wanted."""
_SILENCES = 2
"""Calls without an answer after which a pass makes no more of them, since each may take a minute."""


@dataclass(slots=True)
class Actor:
    """Acts on batches. Raises KubeError, with nothing sent, if a write that must come first failed."""

    accounts: Accounts
    transfers: Transfers
    sending: Sending
    publishing: Publishing
    destinations: Destinations
    clock: Callable[[], float]
    new_token: Callable[[], str]
    installation: Installation
    leading: Callable[[], bool]
    """Whether this replica may still send requests that cost money."""
    cache: Cache
    check_seconds: float = 30.0
    """How long a check of the output may take, since it runs in a pass: a slow server must not hold the worker."""

    async def act(self, facts: Facts, action: Action, memory: BatchMemory, writer: ObjectWriter) -> Result:
        """Carry out the action; a refusal by the cloud is a result, not an exception."""
        if isinstance(action, _DROPPING) or action == Wait(Reason.PAUSED):
            interrupted = self.transfers.drop(facts.key)
            memory.clean = memory.clean and not interrupted
        if isinstance(action, actions.Adopt | actions.Close):
            memory.clean = False  # status may have been lost, and with it what was uploaded and published
        match action:
            case actions.Begin():
                begun = await self._begin(facts, memory, writer)
                memory.clean = memory.knows_all = True
                return begun
            case actions.Start(work):
                self._start(facts, work, memory)
                return Nothing()
            case actions.Record():
                memory.clean = memory.clean and not isinstance(facts.came, WorkTroubled | WorkRefused)
                return Nothing()
            case actions.Submit():
                submitted = await self._submit(facts, memory, writer)
                # The file may exist in spite of the cloud's answer, and must not stay behind.
                memory.clean = memory.clean and not (isinstance(submitted, NotPaid) and submitted.vanished)
                return submitted
            case actions.Cancel():
                return await self._cancel(facts, memory)
            case actions.BeginPublication():
                return await self._checked(facts, memory)
            case _ if isinstance(action, actions.OnlyReported):
                return Nothing()
            case _ as never:
                assert_never(never)

    async def _begin(self, facts: Facts, memory: BatchMemory, writer: ObjectWriter) -> Begun:
        metadata, account = facts.obj.metadata, facts.usable_account.key
        intent = CreateIntent(
            token=self.new_token(),
            name=cloud_name(metadata.namespace, metadata.name, metadata.uid, self.installation.name, 1),
            attempt=1,
            spec_hash="",  # the spec cannot change anything that was sent
            started_at=facts.now,
            account=f"{account.kind}/{account.name}",
            identity=identity_in(facts.usable_account, metadata, facts.key.kind, self.installation.name),
        )
        memory.unsent = intent.token
        await finalizer.open_intent(writer, metadata, intent)
        return Begun(intent)

    def _start(self, facts: Facts, work: Work, memory: BatchMemory) -> None:
        job, account, intent = job_of(facts), facts.usable_account, facts.known_intent
        if job is None:
            raise AssertionError(f"{facts.key}: the plan starts work that the phase does not have")
        if self.transfers.has_other(facts.key, job):
            memory.clean = False  # nothing records what it uploaded
        key, status, search = facts.key, facts.status, not memory.clean
        generation = facts.obj.metadata.generation
        asked = replace(account, cloud=self._fenced(facts))

        async def begun() -> WorkResult:
            # Read only now: thousands of jobs may wait for a place, each with half a mebibyte of records in its spec.
            obj = self._read(key, job.uid, generation).model_copy(update={"status": status})
            if work is Work.CLEAR and self.cache.has_living(key, job.uid):
                return await clear_results(obj, asked.cloud)
            return await self._work(work, obj, asked, intent, search=search)

        self.transfers.start(key, job, str(account.key), lambda: self._guarded(account, begun()))

    def _read(self, key: ObjectKey, uid: str, generation: int) -> InferenceBatch:
        """The object as the watch last told of it. Raises Withheld if it is another one, or has changed."""
        entry = self.cache.get(key)
        if entry is None or (entry.uid, entry.generation) != (uid, generation):
            raise Withheld("read", "it is not what was decided on")
        return InferenceBatch.model_validate_json(entry.body)

    async def _work(
        self, work: Work, obj: InferenceBatch, account: AccountReady, intent: CreateIntent, *, search: bool
    ) -> WorkResult:
        first = (obj.status.round or 1) == 1
        match work:
            case Work.SEND if first and obj.spec.input.file_id is not None and not account.adoption_allowed:
                text = "the account is shared and does not say allowAdoption: input.fileId could name anybody's file"
                return WorkTroubled(Reason.ADOPTION_REFUSED, text, stalled=True)
            case Work.SEND:
                send = self.sending.first if first else self.sending.again
                sent = await send(obj, account.cloud, intent, search=search)
                return replace(sent, made_for=intent.identity) if isinstance(sent, Uploaded) else sent
            case Work.PUBLISH:
                return await self.publishing.publish(obj, account.cloud, intent)
            case Work.CLEAR:
                await self.destinations.release(obj, intent.token)
                return await clear(obj, account.cloud, intent, search=search)
            case _ as never:
                assert_never(never)

    async def _guarded(self, account: AccountReady, work: Awaitable[WorkResult]) -> WorkResult:
        try:
            return await work
        except StoppedError as stopped:
            return stopped.came
        except Withheld as withheld:
            return WorkTroubled(Reason.WAITING_FOR_RETRY, f"the batch changed, or another leads: {withheld.message}")
        except CloudError as error:
            return self._troubled(account, error)
        except SourceStalled as stalled:
            return WorkTroubled(Reason.INPUT_UNAVAILABLE, f"the input comes too slowly: {stalled}")
        except KubeError as error:
            return WorkTroubled(Reason.WAITING_FOR_RETRY, f"the Kubernetes API did not take it: {error}")
        except NoTemporarySpace as full:
            return WorkTroubled(Reason.WAITING_FOR_RETRY, str(full), stalled=True)

    def _troubled(self, account: AccountReady, error: CloudError) -> WorkTroubled:
        self.accounts.failed(account, error)
        if isinstance(error, NotFound):
            return no_access(error)
        row = refusal(error)
        return WorkTroubled(row.reason, str(error), stalled=row.stalled, retry_after=error.retry_after)

    async def _submit(self, facts: Facts, memory: BatchMemory, writer: ObjectWriter) -> Result:
        """Create the next batch; the marker is written first, so that no crash can hide an attempted create."""
        part, account = predicates.unpaid(facts.status), facts.usable_account
        if part is None:
            raise AssertionError(f"{facts.key}: the plan submits a part that is not there")
        memory.unsent = create_of(facts.known_intent, part)
        await self._mark(facts, part, writer)
        if not self.leading():
            raise kube.NotLeading
        memory.unsent = ""  # from here on nothing proves that it was not sent
        memory.searched = ""  # the cloud may act late on this request, too: its absence counts from here on
        try:
            batch = await self._fenced(facts).call(CREATE_BATCH, self._request(facts, part))
            if not is_about(part, batch, facts.known_intent.token):
                raise unbelieved(batch, CREATE_BATCH)
            if others := self.cache.others(facts.key, batch.id):
                raise Unreadable(CREATE_BATCH.name, about_anothers(batch.id, others))
        except CloudError as error:
            self.accounts.failed(account, error, facts.key)
            if error.outcome is Outcome.UNKNOWN:
                return Unknown(part, error)
            memory.unsent = create_of(facts.known_intent, part)  # no search has to show that it was not acted on
            vanished = isinstance(error, NotFound) and await self._vanished(account.cloud, part)
            return NotPaid(part, error, vanished)
        memory.shown.add(batch.id)
        return Paid(part, batch)

    def _request(self, facts: Facts, part: PartStatus) -> BatchCreate:
        spec, tag = facts.obj.spec, tag_of(facts.known_intent.token, facts.status, part)
        return BatchCreate(
            input_file_id=part.input_file_id,
            endpoint=spec.endpoint,
            metadata=metadata_of(spec.metadata, facts.key, tag),
        )

    def _fenced(self, facts: Facts) -> Cloud:
        obj = facts.obj
        stands = fence(self.cache, facts.key, obj.metadata, obj.status.id, obj.status.create_token)
        return facts.usable_account.cloud.guarded(stands)

    async def _mark(self, facts: Facts, part: PartStatus, writer: ObjectWriter) -> None:
        """Mark the part in status before the POST; raises if the object has changed since its read: nothing is sent."""
        sent = part.model_copy(update={"sent_at": facts.now})
        marked = [sent if row is part else row for row in facts.status.parts or ()]
        rows: list[JsonValue] = [row.model_dump(mode="json", exclude_none=True) for row in marked]
        patch: JsonObject = {"parts": rows}
        made_for = facts.sent_for
        if made_for is not None and made_for != facts.obj.status.identity:  # as stored: a crash leaves no more
            patch["identity"] = made_for.model_dump(mode="json", by_alias=True)
        await writer.status(patch)

    async def _vanished(self, cloud: Cloud, part: PartStatus) -> bool:
        try:
            return await unless_absent(cloud, GET_FILE, part.input_file_id or "") is None
        except CloudError:
            return False

    async def _cancel(self, facts: Facts, memory: BatchMemory) -> Result:
        """Cancel every running batch; a refusal for one does not stop the others."""
        account = facts.usable_account
        refused: list[CloudError] = []
        unseen = facts.view.sight in UNSEEN
        for part in (running_unseen if unseen else cancellable)(facts.status, memory):
            batch_id = part.batch_id or ""
            try:
                await unless_absent(self._fenced(facts), CANCEL_BATCH, batch_id)  # if it is absent, the next look shows
            except CloudError as error:
                self.accounts.failed(account, error, facts.key)
                silent = facts.view.sight is Sight.BLIND and not isinstance(error, RateLimited | Withheld)
                if silent or isinstance(error, Conflict):
                    memory.shown.discard(batch_id)
                if part.state == predicates.GONE and isinstance(error, Conflict):
                    memory.cancelled[batch_id] = self.clock()  # it has ended; nobody reads it any more
                    continue
                refused.append(error)
                if sum(each.status is None for each in refused) == _SILENCES:
                    break
                continue
            memory.cancelled[batch_id] = self.clock()
        if not refused:
            return Nothing()
        return CancelRefused(min(refused, key=lambda error: isinstance(error, Conflict)))  # which has probably ended

    async def _checked(self, facts: Facts, memory: BatchMemory) -> Result:
        """Check the output again, since another batch may have taken it, or the spec may name another one.

        Claims it again unless this process did: a claim may be repeated.
        """
        try:
            async with asyncio.timeout(self.check_seconds):
                await self.destinations.check(facts.obj, facts.known_intent.token)
                if not memory.clean or predicates.may_be_elsewhere(facts.obj.status):
                    await self.destinations.claim(facts.obj, facts.known_intent.token)
        except StoppedError as stopped:
            came = stopped.came
        except TimeoutError:
            text = f"its server did not complete the check of spec.output within {self.check_seconds:g} s"
            came = WorkTroubled(Reason.OUTPUT_UNAVAILABLE, text)
        else:
            return Nothing()
        return Hindered(unpublished(came, facts.obj.model_copy(update={"status": facts.status})))
