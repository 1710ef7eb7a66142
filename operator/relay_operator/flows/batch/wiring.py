"""Puts the parts of the batches' reconciler together."""

import asyncio
import random
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from relay_operator.api.inferencebatch import DEFINITION
from relay_operator.api.meta import ObjectKey
from relay_operator.engine.account import Accounts
from relay_operator.engine.backoff import Backoff
from relay_operator.engine.cache import Cache
from relay_operator.engine.events import Recorder
from relay_operator.engine.informer import keep_answer, key_of
from relay_operator.engine.kube import JsonObject, Kube
from relay_operator.engine.passes import Pass
from relay_operator.engine.queue import Queue
from relay_operator.flows.batch.act import Actor
from relay_operator.flows.batch.destinations import Destinations
from relay_operator.flows.batch.gather import Gatherer
from relay_operator.flows.batch.lost_files import LostFiles
from relay_operator.flows.batch.polls import BatchPolls
from relay_operator.flows.batch.publishing import Publishing
from relay_operator.flows.batch.reconciler import BatchReconciler
from relay_operator.flows.batch.sending import Sending
from relay_operator.flows.batch.sources import Sources
from relay_operator.flows.batch.transfers import Transfers
from relay_operator.flows.managed.gather import ConfirmationDelays
from relay_operator.flows.managed.reconciler import PollIntervals
from relay_operator.flows.managed.status import RetryPolicy
from relay_operator.objectstores.stores import ObjectStores
from relay_operator.records.pace import Pace
from relay_operator.records.split import PartLimits
from relay_operator.settings import Settings


@dataclass(frozen=True, slots=True)
class Shared:
    """What the batches' reconciler shares with those of the other kinds."""

    settings: Settings
    kube: Kube
    cache: Cache
    queue: Queue[ObjectKey]
    accounts: Accounts
    recorder: Recorder
    on_pass: Callable[[Pass], None]
    leading: Callable[[], bool]


def batch_reconciler(shared: Shared, stores: ObjectStores, transfers: Transfers) -> BatchReconciler:
    """The one reconciler of all batches."""
    settings, pace = shared.settings, Pace()
    sources = Sources(shared.kube, stores)
    destinations = Destinations(shared.kube, stores, sources)
    delays = ConfirmationDelays(
        absence=settings.absence_seconds, newborn=settings.newborn_seconds, search=settings.search_seconds
    )
    lost_files = LostFiles(max(delays.absence, delays.newborn), asyncio.sleep)
    polls = BatchPolls(settings.poll_transition_seconds / 2, settings.poll_settled_seconds * 2, time.monotonic)

    def keep(raw: JsonObject) -> None:
        keep_answer(shared.cache, shared.queue, key_of(DEFINITION.kind, raw), raw)

    backoff = Backoff(settings.backoff_initial_seconds, settings.backoff_max_seconds)
    return BatchReconciler(
        kube=shared.kube,
        cache=shared.cache,
        queue=shared.queue,
        gatherer=Gatherer(shared.accounts, shared.cache, polls, transfers, time.monotonic, delays),
        actor=Actor(
            kube=shared.kube,
            accounts=shared.accounts,
            transfers=transfers,
            sending=Sending(sources, destinations, lost_files, pace, PartLimits(settings.batch_part_bytes)),
            publishing=Publishing(destinations, lost_files, pace),
            destinations=destinations,
            clock=time.monotonic,
            new_token=lambda: secrets.token_hex(16),
            leading=shared.leading,
            on_object=keep,
        ),
        transfers=transfers,
        recorder=shared.recorder,
        retry_policy=RetryPolicy(backoff, random.random),
        intervals=PollIntervals(
            transition=settings.poll_transition_seconds,
            settled=settings.poll_settled_seconds,
            jitter=settings.poll_jitter,
            unreachable_after=settings.unavailable_after_failures,
        ),
        progress_seconds=settings.batch_progress_seconds,
        wall_clock=lambda: datetime.now(UTC),
        on_pass=shared.on_pass,
    )
