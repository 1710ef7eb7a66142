"""Breadth-first search through every state, so that the first trace to a violation is a shortest one.

States are kept as 64-bit hashes: among five million, the probability of missing one is below one in a million.
"""

import gc
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.model import invariants
from tests.model.canonical import canonical
from tests.model.state import State
from tests.model.steps import Move, World


@dataclass
class Outcome:
    """The result of an exploration."""

    states: int = 0
    at_rest: int = 0
    cut: int = 0
    """States beyond the bound on resources or intents, which are not followed."""
    seconds: float = 0.0
    complete: bool = True
    depth: int = 0
    violations: dict[str, list[str]] = field(default_factory=dict)
    """For each broken invariant, the first trace to a violation."""

    def __str__(self) -> str:
        whole = "all" if self.complete else "NOT ALL"
        found = ", ".join(self.violations) or "holds"
        shape = f"{whole}, depth {self.depth}, {self.at_rest:,} at rest, {self.cut:,} cut"
        return f"{self.states:>9,} states ({shape}) {self.seconds:6.1f} s: {found}"


class Exploration:
    """The states of one configuration and how each was reached."""

    def __init__(self, world: World, *, first: bool, seconds: float) -> None:
        self.world, self.first, self.seconds = world, first, seconds
        self.outcome = Outcome()
        self._parents: dict[int, tuple[int, str]] = {}
        self._causes: dict[int, list[int]] = {}
        """For each state, those from which it follows without faults and people."""
        self._resting: list[int] = []

    def run(self) -> Outcome:
        """Visits every state within the bounds; stops at the first violation if `first`, or when the time is up."""
        outcome, began = self.outcome, time.monotonic()
        start = canonical(self.world.config.start())
        self._parents[hash(start)] = (0, "")
        level = [start]
        while level and outcome.complete and not self._done:
            following: list[State] = []
            for state in level:
                following.extend(self._visit(state))
                outcome.complete = time.monotonic() - began < self.seconds
                if self._done or not outcome.complete:
                    break
            level = following
            outcome.depth += 1
        if outcome.complete and not self._done:
            self._unrest()
        outcome.states, outcome.seconds = len(self._parents), time.monotonic() - began
        return outcome

    @property
    def _done(self) -> bool:
        return self.first and bool(self.outcome.violations)

    def _visit(self, state: State) -> Iterator[State]:
        """Yields the new states that follow from this one."""
        here, productive = hash(state), False
        for costs, moves in ((False, self.world.moves(state)), (True, self.world.acts(state))):
            for move in moves:
                after = canonical(move.state)
                key = hash(after)
                if not costs and key != here:
                    productive = True
                    self._causes.setdefault(key, []).append(here)
                if self._new(move, after, key, here):
                    yield after
        if not productive:
            self.outcome.at_rest += 1
            self._resting.append(here)
            broken = invariants.at_rest(self.world, state)
            if broken:
                self._blame(broken, here, "nothing more happens")

    def _new(self, move: Move, after: State, key: int, here: int) -> bool:
        """Records a state; returns whether to follow it: it is new, breaks nothing, and is within the bounds."""
        broken = move.broken or ("" if key in self._parents else invariants.always(self.world, after))
        if broken:
            self._blame(broken, here, move.label)
        elif key in self._parents:
            return False
        config, fresh = self.world.config, key not in self._parents
        self._parents.setdefault(key, (here, move.label))
        cut = len(after.resources) > config.resources or after.tokens > config.intents + 1
        if fresh and (broken or cut):
            self.outcome.cut += not broken
            self._resting.append(key)
        return not broken and not cut

    def _unrest(self) -> None:
        """Reports a state from which rest is not reachable without faults: the checks at rest would not cover it."""
        settled, resting = set(self._resting), self._resting
        while resting:
            for cause in self._causes.get(resting.pop(), ()):
                if cause not in settled:
                    settled.add(cause)
                    resting.append(cause)
        restless = next((state for state in self._parents if state not in settled), None)
        if restless is not None:
            self._blame("Livelock: it never comes to rest", restless, "goes on for ever")

    def _blame(self, broken: str, here: int, label: str) -> None:
        kind = broken.partition(":")[0] + (" at rest" if "at rest" in broken else "")
        if kind in self.outcome.violations:
            return
        trace = [label]
        while self._parents[here][1]:
            here, label = self._parents[here]
            trace.append(label)
        self.outcome.violations[kind] = [*reversed(trace), f"=> {broken}"]


def explore(world: World, *, first: bool = False, seconds: float = 3600.0) -> Outcome:
    """Explores one world."""
    disabled, thresholds = logging.root.manager.disable, gc.get_threshold()
    logging.disable()  # what the operator logs in every state is of no use
    gc.set_threshold(200_000, 100, 1000)  # states are never garbage, and scanning them repeatedly is slow
    try:
        return Exploration(world, first=first, seconds=seconds).run()
    finally:
        gc.set_threshold(*thresholds)
        logging.disable(disabled)
