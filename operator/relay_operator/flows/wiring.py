"""The parts of all flows, and how each flow is assembled, for the lines of `KINDS`."""

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import cast

from relay_operator.accounts.account_object import is_anothers
from relay_operator.accounts.accounts import Accounts
from relay_operator.api.cloudaccount import AnyAccount
from relay_operator.api.definition import Definition
from relay_operator.api.inferencebatch import DEFINITION as BATCH
from relay_operator.api.workload import SpecT, StatusT
from relay_operator.budgets.budgets import Budgets
from relay_operator.budgets.prices import Pricing
from relay_operator.engine.confirmation import ConfirmationDelays
from relay_operator.engine.controller import Controller
from relay_operator.engine.engine import Engine
from relay_operator.engine.passes import KindReconciler
from relay_operator.engine.shared_lists import SharedLists
from relay_operator.engine.traces import Traces
from relay_operator.flows.account.act import Actor as AccountActor
from relay_operator.flows.account.bookkeeping import Bookkeeper, Departed
from relay_operator.flows.account.flow import AccountFlow
from relay_operator.flows.account.sweep import Sweeper
from relay_operator.flows.batch.act import Actor as BatchActor
from relay_operator.flows.batch.destinations import Destinations
from relay_operator.flows.batch.files import LostFiles
from relay_operator.flows.batch.flow import BatchFlow
from relay_operator.flows.batch.gather import Gatherer as BatchGatherer
from relay_operator.flows.batch.polls import BatchPolls
from relay_operator.flows.batch.publishing import Publishing
from relay_operator.flows.batch.sending import Sending
from relay_operator.flows.batch.sources import Sources
from relay_operator.flows.batch.traces import BatchTraces
from relay_operator.flows.batch.transfers import Transfers
from relay_operator.flows.managed.act import Actor
from relay_operator.flows.managed.connection import ConnectionWriter
from relay_operator.flows.managed.flow import ManagedFlow
from relay_operator.flows.managed.funding import Funding
from relay_operator.flows.managed.gather import Gatherer
from relay_operator.flows.managed.inputs import InputReader, limited_reads
from relay_operator.flows.managed.resource import ExternalResource, ObsT
from relay_operator.flows.managed.shown_once import ValueKeeper
from relay_operator.flows.managed.traces import ManagedTraces
from relay_operator.flows.schedule.flow import ScheduleFlow
from relay_operator.objectstores.stores import ObjectStores
from relay_operator.observability.metrics import Metrics
from relay_operator.records.pace import Pace
from relay_operator.settings import Settings
from relay_wire.batches import Batch


@dataclass(frozen=True, slots=True)
class Parts:
    """The shared parts of one process."""

    settings: Settings
    engine: Engine
    accounts: Accounts
    metrics: Metrics
    stores: ObjectStores
    transfers: Transfers
    leading: Callable[[], bool]
    """Whether this replica may still send requests that cost money."""
    plurals: Mapping[str, str]
    """Plurals by kind, of the kinds that use accounts."""
    disabled: frozenset[str]
    """Disabled kinds: their existing resources are only deleted."""
    departed: Departed
    """The objects that stopped recording a cloud id lately."""
    budgets: Budgets
    pricing: Pricing
    traces: dict[str, Traces] = field(default_factory=dict)
    """The traces of each kind; every controller adds its own."""
    reads: asyncio.Semaphore = field(default_factory=limited_reads)
    """Bounds the reads of inputs, of all kinds together."""

    @property
    def delays(self) -> ConfirmationDelays:
        settings = self.settings
        return ConfirmationDelays(
            absence=settings.absence_seconds,
            newborn=settings.newborn_seconds,
            search=settings.search_seconds,
            unknown=settings.absence_after_unknown_seconds,
        )

    def new_token(self) -> str:
        """A new unique token."""
        return secrets.token_hex(16)


def accounts(definition: Definition, model: type[AnyAccount]) -> Callable[[Parts], KindReconciler]:
    """The controller of one of the two kinds of account."""

    def controller(parts: Parts) -> KindReconciler:
        engine, settings, metrics = parts.engine, parts.settings, parts.metrics
        sweeper = Sweeper(
            engine,
            parts.traces,
            not settings.watch_namespaces,
            metrics.on_late_create,
            parts.accounts.organization_of,
        )
        bookkeeper = Bookkeeper(engine, parts.departed, settings.namespace)
        actor = AccountActor(engine, settings, parts.accounts, metrics, sweeper, bookkeeper, parts.budgets)
        flow = AccountFlow(definition, model, parts.plurals, actor)
        return Controller(engine, flow, partial(is_anothers, settings))

    return controller


def batches(parts: Parts) -> KindReconciler:
    """The controller of batches."""
    parts.traces[BATCH.kind] = BatchTraces(parts.engine.cache)
    engine, settings, delays, transfers, pace = parts.engine, parts.settings, parts.delays, parts.transfers, Pace()
    sources = Sources(engine.kube, parts.stores)
    destinations = Destinations(engine.kube, parts.stores, sources, parts.leading)
    lost_files = LostFiles(max(delays.absence, delays.newborn), asyncio.sleep)
    lists = SharedLists[Mapping[str, Batch]](settings.poll_transition_seconds / 2, time.monotonic)
    polls = BatchPolls(lists, settings.poll_settled_seconds * 2, time.monotonic)
    flow = BatchFlow(
        gatherer=BatchGatherer(
            parts.accounts,
            engine.cache,
            polls,
            transfers,
            time.monotonic,
            delays,
            engine.installation,
            engine.retry_policy.longest,
        ),
        actor=BatchActor(
            accounts=parts.accounts,
            transfers=transfers,
            sending=Sending(sources, destinations, lost_files, pace, settings.batch_part_bytes),
            publishing=Publishing(destinations, lost_files, pace, engine.wall_clock),
            destinations=destinations,
            clock=time.monotonic,
            new_token=parts.new_token,
            installation=engine.installation,
            leading=parts.leading,
            cache=engine.cache,
        ),
        transfers=transfers,
        retry_policy=engine.retry_policy,
        installation=engine.installation,
        progress_seconds=settings.batch_progress_seconds,
        unreachable_after=settings.unavailable_after_failures,
    )
    return Controller(engine, flow)


def managed(
    make: Callable[[Parts], ExternalResource[SpecT, StatusT, ObsT]],
) -> Callable[[Parts], KindReconciler]:
    """The controller of a kind whose mapping `make` creates."""

    def controller(parts: Parts) -> KindReconciler:
        engine, accounts, resource = parts.engine, parts.accounts, make(parts)
        parts.traces[resource.definition.kind] = ManagedTraces(
            resource, cast("StatusT", resource.definition.status()), engine.cache, engine.installation
        )
        flow = ManagedFlow(
            resource=resource,
            accounts=accounts,
            gatherer=Gatherer(
                resource,
                accounts,
                engine.cache,
                InputReader(engine.kube, parts.reads),
                ValueKeeper(engine.kube),
                Funding(resource, accounts, parts.budgets, parts.pricing),
                engine.clock,
                parts.delays,
                engine.installation,
                engine.retry_policy.longest,
                disabled=resource.definition.kind in parts.disabled,
            ),
            actor=Actor(
                resource,
                accounts,
                engine.clock,
                parts.new_token,
                engine.installation,
                parts.leading,
                engine.cache,
                parts.budgets,
            ),
            connections=ConnectionWriter(engine.kube, parts.leading),
            retry_policy=engine.retry_policy,
            installation=engine.installation,
            unreachable_after=parts.settings.unavailable_after_failures,
        )
        return Controller(engine, flow)

    return controller


def schedules(parts: Parts) -> KindReconciler:
    """The controller of schedules."""
    return Controller(parts.engine, ScheduleFlow(parts.engine, parts.leading))
