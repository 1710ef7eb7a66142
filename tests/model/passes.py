"""The operator's real passes as a tree: at each node a pass asks a question, and each answer leads to another node.

A pass is real code from the queue's key to the last write: `Controller`, `ManagedFlow` or `BatchFlow`, `Gatherer`,
`plan`, `Actor`, `write_id`, `Vanished`, `identity`. Only its surroundings are modelled. It begins with an object,
the process's memory of it, and the vanished objects that the process knows; it asks for everything else. Passes that
began alike and got the same answers are therefore equal, and the code runs once for each of them, however many states
lead there.
"""

import asyncio
import contextlib
import sys
from collections import Counter
from collections.abc import Coroutine
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple, cast

from relay_client import Cloud, CloudError
from relay_kube.errors import KubeError
from relay_kube.kube import Kube
from relay_operator.api.cloudaccount import Orphans
from relay_operator.api.meta import ObjectKey
from relay_operator.budgets.budgets import Budgets
from relay_operator.budgets.prices import Prices, Pricing
from relay_operator.engine import persist
from relay_operator.engine.account import AccountReady, Accounts
from relay_operator.engine.backoff import Backoff, PollIntervals, RetryPolicy
from relay_operator.engine.cache import Cache
from relay_operator.engine.confirmation import ConfirmationDelays
from relay_operator.engine.controller import Controller
from relay_operator.engine.engine import Engine
from relay_operator.engine.events import Recorder
from relay_operator.engine.informer import Informer
from relay_operator.engine.leftover import Leftover
from relay_operator.engine.leftovers import Leftovers
from relay_operator.engine.passes import Pass
from relay_operator.engine.queue import Priority, Queue, Taken
from relay_operator.engine.traces import Traces
from relay_operator.engine.vanished import Vanished, _name
from relay_operator.flows.account.sweep import Sweeper, SweepMemory
from relay_operator.flows.batch.traces import BatchTraces
from relay_operator.flows.managed.act import Actor
from relay_operator.flows.managed.connection import ConnectionWriter
from relay_operator.flows.managed.flow import ManagedFlow
from relay_operator.flows.managed.funding import Funding
from relay_operator.flows.managed.gather import Gatherer
from relay_operator.flows.managed.inputs import InputReader
from relay_operator.flows.managed.shown_once import ValueKeeper
from relay_operator.flows.managed.traces import ManagedTraces
from relay_operator.kinds.gpucluster import GpuClusterStatus
from tests.model import asked, batches
from tests.model.asked import Answer, Asked
from tests.model.batches import ModelTransfers
from tests.model.memories import NOW, frozen, thawed
from tests.model.neighbours import (
    ModelAccounts,
    ModelCache,
    ModelCloud,
    ModelClusters,
    ModelKube,
    Oracle,
    Script,
    Suspended,
    settled,
)
from tests.model.objects import BATCH, KIND, MOMENT, NAMESPACE, known, loaded, stored
from tests.model.state import Books, Departed, Frozen, Left

DELAYS = ConfirmationDelays(newborn=0.0, search=0.0, searches=1)
"""Defaults, except that a 404 right after a create and the time that webhooks have are not modelled."""
_MOMENT = datetime.fromisoformat(MOMENT)


class Beginning(NamedTuple):
    """The inputs of a pass; `body` is empty for a sweep."""

    installation: str
    key: ObjectKey
    body: bytes
    memory: Frozen
    books: Books


class Loading(NamedTuple):
    """The inputs of a new leader or of the repairing list that reads the ConfigMaps."""

    config_maps: tuple[tuple[str, bytes], ...]
    books: Books


Relisted = tuple[tuple[ObjectKey, tuple[bytes | None, bytes | None]], ...]
"""For each object, the text that a process knows, and the one that the API server has."""


class End(NamedTuple):
    """The end of a pass: its outcome, and what its process remembers."""

    action: str
    memory: Frozen


class Unpriced(Pricing):
    """Pricing without prices: the price of a cluster is only shown, and no decision here depends on it."""

    async def of(self, _: Cloud) -> Prices:
        """Returns empty prices."""
        return Prices({}, {})


@dataclass(slots=True)
class Node:
    """A pass up to its next question or its end."""

    beginning: Beginning
    answers: tuple[Answer, ...]
    asks: Asked | End
    books: Books
    """The process's books as the pass has left them, before a deed or at its end."""
    following: dict[Answer, int] = field(default_factory=dict)

    @property
    def uid(self) -> str:
        """The UID of the object; empty for a sweep."""
        return known(self.beginning.body).uid if self.beginning.body else ""


class Passes:
    """All passes played so far. Configurations with the same rules and settings can share it. Close it after use."""

    def __init__(
        self, kind: str = KIND, delays: ConfirmationDelays = DELAYS, orphans: Orphans = Orphans.REPORT
    ) -> None:
        self.nodes: list[Node] = []
        self._beginnings: dict[Beginning, int] = {}
        self._loaded: dict[Loading, tuple[Books, frozenset[str]]] = {}
        self._loop = asyncio.new_event_loop()
        self._script = Script()
        script = self._script
        self._cache, self._kube, self._ended = ModelCache(script), ModelKube(script), list[Pass]()
        self._installation = self._cache.installation
        cache, kube = cast(Cache, self._cache), cast(Kube, self._kube)
        queue = _ModelQueue(script)
        self._vanished = Vanished(kube, "relay-system", cache, queue, lambda: _MOMENT, frozenset({kind}))
        self._informer = Informer(cache, queue, self._vanished, lambda: 0.5, 300.0)
        policy = RetryPolicy(Backoff(1.0, 300.0), lambda: 0.5)
        engine = Engine(
            kube=kube,
            cache=cache,
            queue=queue,
            recorder=Recorder(kube, "model", lambda: _MOMENT),
            vanished=self._vanished,
            retry_policy=policy,
            intervals=PollIntervals(transition=5.0, settled=300.0, jitter=0.2),
            wall_clock=lambda: _MOMENT,
            on_pass=self._ended.append,
            clock=lambda: NOW,
            sleep=_at_once,
        )
        accounts, clusters = cast(Accounts, ModelAccounts(script)), ModelClusters()
        self._transfers = ModelTransfers()
        self._controller: Controller[Any, Any, Any, Any, Any]
        traces: Traces
        if kind == BATCH:
            flow = batches.flow(script, engine, accounts, self._transfers, policy, delays)
            self._controller, traces = Controller(engine, flow), BatchTraces(cache)
        else:
            self._controller = Controller(engine, _managed(script, engine, accounts, clusters, policy, delays))
            traces = ManagedTraces(clusters, GpuClusterStatus(), cache, engine.installation)
        self._accounts, self._orphans, self._kind = accounts, orphans, kind
        self._sweeper = Sweeper(engine, {kind: traces}, True, lambda _kind: None, lambda _account: None)

    def close(self) -> None:
        self._loop.close()

    def begun(self, beginning: Beginning, oracle: Oracle) -> int:
        """Returns the node at which a pass begins."""
        if beginning not in self._beginnings:
            self._beginnings[beginning] = self._played(beginning, (), oracle)
        return self._beginnings[beginning]

    def answered(self, number: int, answer: Answer, oracle: Oracle) -> int:
        """Returns the node to which an answer leads; if the pass is not known, plays it up to the next deed."""
        node = self.nodes[number]
        if answer not in node.following:
            node.following[answer] = self._played(node.beginning, (*node.answers, answer), oracle)
        return node.following[answer]

    def loaded(self, loading: Loading) -> tuple[Books, frozenset[str]]:
        """Returns the books of a process that has read the ConfigMaps, and the names of those that it deleted."""
        if loading not in self._loaded:
            self._set_out(loading.books)
            self._kube.config_maps = loading.config_maps
            self._kube.last = dict(loading.config_maps)
            self._kube.dropped = dropped = set[str]()
            self._run(self._vanished.load())
            self._kube.dropped = None
            self._loaded[loading] = self._books(), frozenset(dropped)
        return self._loaded[loading]

    def gone(self, key: ObjectKey, body: bytes, books: Books) -> Books:
        """Returns the books of a process whose watch has reported the deletion of this object."""
        self._set_out(books)
        self._cache.entries[key] = self._cache.entry_of(loaded(body))
        self._informer.gone(self._kind, loaded(body))
        self._cache.forgotten.clear()
        return self._books()

    def relisted(self, objects: Relisted, books: Books) -> Books:
        """Returns the books of a process that has listed all objects, and knew older ones."""
        self._set_out(books)
        self._cache.entries |= {
            key: self._cache.entry_of(loaded(known)) for key, (known, _) in objects if known is not None
        }
        self._kube.objects = tuple(loaded(there) for _, (_, there) in objects if there is not None)
        self._run(self._informer.relist(cast(Kube, self._kube), self._kind, self._controller.flow.type, ()))
        return self._books()

    def _played(self, beginning: Beginning, answers: tuple[Answer, ...], oracle: Oracle) -> int:
        key, memories = beginning.key, self._controller.memories
        self._set_out(beginning.books)
        self._installation.name = beginning.installation
        self._script.begin(answers, oracle)
        sweep = SweepMemory({}, Counter(dict(cast(Any, beginning.memory))))
        asks: Asked | End
        try:
            if not beginning.body:
                self._run(self._swept(sweep))
                asks = End(
                    "sweep", tuple(sorted((name, min(times, 1)) for name, times in sweep.missing.items() if times))
                )
            else:
                self._kube.last[key.name] = beginning.body
                self._cache.entries.setdefault(key, self._cache.entry_of(loaded(beginning.body)))
                memories.drop(key)
                self._transfers.body = beginning.body
                uid = known(beginning.body).uid
                memories._by_key[key] = thawed(beginning.memory, uid, type(memories.new(uid)))
                self._run(self._controller.reconcile(Taken(key, Priority.CHANGE, NOW)))
                left = memories.get(key)
                asks = End(
                    self._ended[-1].outcome if self._ended else "forget", frozen(left) if left is not None else ()
                )
        except Suspended as suspended:
            asks = suspended.asked
        self._ended.clear()
        first = len(self.nodes)
        for look, answer in self._script.looked:
            self.nodes.append(Node(beginning, answers, look, beginning.books, {answer: len(self.nodes) + 1}))
            answers = (*answers, answer)
        self.nodes.append(Node(beginning, answers, asks, self._books()))
        return first

    async def _swept(self, memory: SweepMemory) -> None:
        """Sweeps as the account's pass does, a day after the leftovers were found."""
        ready = await self._accounts.resolve(NAMESPACE, None)
        assert isinstance(ready, AccountReady)
        with contextlib.suppress(CloudError, KubeError):  # the account's next pass tries again
            await self._vanished.leftovers.save(())
            usage = cast(ModelCloud, ready.cloud).usage() if self._kind == KIND else None
            await self._sweeper.sweep(ready, usage, self._orphans, memory, _MOMENT + timedelta(days=1))

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        tries = persist._TRIES
        persist._TRIES = sys.maxsize  # the limit only moves the next try to another pass, which writes the id first
        try:
            self._loop.run_until_complete(work)
        finally:
            persist._TRIES = tries

    def _set_out(self, books: Books) -> None:
        vanished, leftovers = (
            self._vanished,
            Leftovers(self._vanished.kube, self._vanished.namespace, self._vanished.kinds),
        )
        vanished.leftovers = leftovers
        self._cache.entries.clear()
        self._cache.forgotten.clear()
        self._kube.last = {}
        vanished._saved.clear()
        vanished._known.clear()
        for one in books.departed:
            self._cache.entries[one.key] = self._cache.entry_of(loaded(one.body))
            vanished._known.add(one.key)
            if one.saved:
                vanished._saved.add(one.key)
                self._kube.last[_name(one.key)] = one.body
        for left in sorted(books.leftovers):
            leftovers._put(Leftover.model_validate_json(left.body))
            if left.saved:
                self._kube.last[left.key] = left.body.encode()
            else:
                leftovers._unsaved.add(left.key)
        leftovers._retracted.update({one.key: Leftover.model_validate_json(one.body) for one in books.retracted})
        leftovers._let_go |= books.let_go

    def _books(self) -> Books:
        vanished, leftovers = self._vanished, self._vanished.leftovers
        return Books(
            frozenset(Departed(key, stored(vanished.body(key)), key in vanished._saved) for key in vanished._known),
            frozenset(
                _left(name, record, saved=name not in leftovers._unsaved) for name, record in leftovers._records.items()
            ),
            frozenset(_left(name, record, saved=True) for name, record in leftovers._retracted.items()),
            frozenset(leftovers._let_go | self._cache.forgotten),
        )


def _managed(
    script: Script,
    engine: Engine,
    accounts: Accounts,
    clusters: ModelClusters,
    policy: RetryPolicy,
    delays: ConfirmationDelays,
) -> ManagedFlow[Any, Any, Any]:
    kube, cache = engine.kube, engine.cache
    budgets = Budgets(cache, engine.queue)
    return ManagedFlow(
        resource=clusters,
        accounts=accounts,
        gatherer=Gatherer(
            clusters,
            accounts,
            cache,
            InputReader(kube),
            ValueKeeper(kube),
            Funding(clusters, accounts, budgets, Unpriced()),
            engine.clock,
            delays,
            engine.installation,
            policy.longest,
        ),
        actor=Actor(
            clusters,
            accounts,
            engine.clock,
            lambda: f"t{script.ask(asked.Token())}",
            engine.installation,
            lambda: bool(script.ask(asked.Leads())),
            cache,
            budgets,
        ),
        connections=ConnectionWriter(kube, lambda: bool(script.ask(asked.Leads()))),
        retry_policy=policy,
        installation=engine.installation,
        unreachable_after=3,
    )


def _left(name: str, record: Leftover, *, saved: bool) -> Left:
    return Left(name, settled(record.model_dump(mode="json")).decode(), saved)


class _ModelQueue(Queue[ObjectKey]):
    """A queue in which nothing waits: a pass may begin at any moment."""

    def __init__(self, script: Script) -> None:
        super().__init__(lambda: NOW)
        self._script = script

    def is_working(self, key: ObjectKey) -> bool:
        return bool(self._script.ask(asked.Working(key)))


async def _at_once(_seconds: float) -> None:
    """Returns at once: time is a step of the model."""
