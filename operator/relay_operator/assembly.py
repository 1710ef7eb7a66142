"""Assembles what a process decides with, whether it leads or only looks."""

import functools
import os
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum, auto
from typing import Final

from relay_kube.kube import Kube
from relay_operator.accounts.accounts import Accounts
from relay_operator.api.meta import ObjectKey
from relay_operator.api.workload import PricedStatus
from relay_operator.budgets.budgets import Budgets
from relay_operator.budgets.prices import ListedPrices
from relay_operator.collector import Collector
from relay_operator.crds.needed import needed
from relay_operator.engine.backoff import Backoff, PollIntervals, RetryPolicy
from relay_operator.engine.cache import Cache
from relay_operator.engine.engine import Engine
from relay_operator.engine.events import Recorder
from relay_operator.engine.kind import Kind
from relay_operator.engine.queue import Lane, Lanes, Priority, Queue, Shares
from relay_operator.engine.served import ServedKinds
from relay_operator.engine.shared_lists import SharedLists
from relay_operator.engine.vanished import Vanished
from relay_operator.flows.account.bookkeeping import Departed
from relay_operator.flows.batch.places import Places
from relay_operator.flows.batch.transfers import Transfers
from relay_operator.flows.wiring import Parts
from relay_operator.objectstores.stores import ObjectStores
from relay_operator.observability.metered import MeteredPool
from relay_operator.observability.metrics import Metrics
from relay_operator.proxies import Proxies
from relay_operator.settings import Settings

_FEW: Final = 8
"""The fewest workers that are a few, if a quarter of all is not less."""
_USUAL_BYTES: Final = 2**16
"""An object with more is large: parsed, it may take more than a megabyte."""


class _Load(Enum):
    """What a worker does for an account."""

    USUAL = auto()
    ACCOUNT = auto()
    """It looks at the account itself, whose usage has up to 17,000 lines."""
    GIVES_WAY = auto()


@dataclass(frozen=True, slots=True)
class Assembled:
    """The parts of one process, and the collector that counts its passes."""

    parts: Parts
    collector: Collector


def assembled(
    settings: Settings,
    kube: Kube,
    kinds: Sequence[Kind[Parts]],
    metrics: Metrics,
    identity: str,
    leading: Callable[[], bool],
    proxies: Proxies,
) -> Assembled:
    """Assemble a process; `identity` reports Events, and while `leading` returns False nothing is sent to the cloud."""
    departed = Departed()
    wakers = {kind.name for kind in kinds if kind.wakes_with_owned}
    cache = Cache(
        on_owned=lambda owner: queue.add(owner, Priority.CHANGE) if owner.kind in wakers else None,
        on_shared=lambda holder: queue.add(holder, Priority.CHANGE),
        on_related=lambda key: queue.add(key, Priority.CHANGE),
        on_left=lambda key, entry: departed.note(key, entry, cache.account_meant(key, entry)),
        urls=(settings.default_base_url, settings.default_inference_url),
        priced=frozenset(kind.name for kind in kinds if issubclass(kind.definition.status, PricedStatus)),
        without_account=frozenset(kind.name for kind in kinds if not kind.uses_account),
    )
    queue = Queue[ObjectKey](time.monotonic, _shares(settings.workers, cache, kinds))
    vanished = Vanished(kube, settings.namespace, cache, queue, _now, frozenset(kind.name for kind in kinds))
    shared_kinds = frozenset(kind.name for kind in kinds if kind.shared_by_default)
    pool = MeteredPool(metrics.on_cloud_request, time.monotonic, leading, settings.connections, proxies)
    accounts = Accounts(settings, kube, cache, queue, pool, shared_kinds)
    collector = Collector(cache, queue, metrics, vanished.leftovers, time.monotonic)
    recorder = Recorder(kube, identity, _now)
    stores, transfers = ObjectStores(settings.store_policy()), Transfers(queue, Places(settings.batch_transfers))
    backoff = Backoff(settings.backoff_initial_seconds, settings.backoff_max_seconds)
    engine = Engine(
        kube=kube,
        cache=cache,
        queue=queue,
        recorder=recorder,
        vanished=vanished,
        retry_policy=RetryPolicy(backoff, random.random),
        intervals=PollIntervals(
            transition=settings.poll_transition_seconds,
            settled=settings.poll_settled_seconds,
            jitter=settings.poll_jitter,
        ),
        wall_clock=_now,
        on_pass=collector.on_pass,
        served=ServedKinds(needed, _remedy(settings.namespace)),
    )
    disabled = frozenset(kind.name for kind in kinds if kind.assumed and kind.name not in settings.assumed_kinds)
    pricing = ListedPrices(SharedLists(settings.poll_settled_seconds, time.monotonic))
    budgets = Budgets(cache, queue)
    shared = settings, engine, accounts, metrics, stores, transfers, leading, used_with_accounts(kinds), disabled
    return Assembled(Parts(*shared, departed, budgets, pricing), collector)


def used_with_accounts(kinds: Sequence[Kind[Parts]]) -> dict[str, str]:
    """Plurals by kind, of the kinds that use an account."""
    return {kind.name: kind.definition.plural for kind in kinds if kind.uses_account}


def _shares(workers: int, cache: Cache, kinds: Sequence[Kind[Parts]]) -> Shares[ObjectKey]:
    """Shares of the workers: half for the accounts of a namespace, or for a shared account, which is of none.

    Of that, one account in one namespace has three quarters. What takes much memory has a few: the accounts of a
    namespace; its large objects, of the quarter for all large objects; the kinds that give way, all together, and half
    as many of an owner's. Thus a cloud that hangs delays no other account's objects, and one namespace, with all its
    accounts and a shared one, delays no other's. Namespaces take turns.
    """
    give_way, few = {kind.name for kind in kinds if kind.gives_way}, max(min(_FEW, workers // 4), workers // 12, 1)
    of_account, of_owner = max(workers * 3 // 8, 1), max(workers // 2, 1)

    @functools.lru_cache(1024)
    def lanes_of(account: ObjectKey, namespace: str, load: _Load) -> Lanes:
        owner = account.namespace or account
        inner = {
            _Load.USUAL: Lane((account, namespace), of_account),
            _Load.ACCOUNT: Lane((load, owner), few),
            _Load.GIVES_WAY: Lane((load, owner), max(few // 2, 1)),
        }
        return inner[load], Lane(("all", owner), of_owner)

    def lanes(key: ObjectKey) -> Lanes:
        entry, gives_way = cache.get(key), key.kind in give_way
        account = None if entry is None else cache.account_meant(key, entry)
        if entry is not None and len(entry.body) > _USUAL_BYTES and not gives_way and key != account:
            return Lane(("large", key.namespace), few), Lane("large", max(workers // 4, 1))
        if account is None:
            return ()
        usual = _Load.GIVES_WAY if gives_way else _Load.USUAL
        return lanes_of(account, key.namespace, _Load.ACCOUNT if key == account else usual)

    return Shares(
        gives_way=lambda key: key.kind in give_way, giving_way=few, lanes=lanes, tenant=lambda key: key.namespace
    )


def _remedy(namespace: str) -> str:
    """The command that updates the CRDs, which this program contains."""
    pod = os.environ.get("POD_NAME")
    inside = f"kubectl exec -n {namespace} {pod} -- " if pod else ""
    return f"{inside}relay-operator crds | kubectl apply --server-side --force-conflicts -f -"


def _now() -> datetime:
    return datetime.now(UTC)
