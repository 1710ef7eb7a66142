"""All steps of processes, the cloud, time, faults and people from a state."""

from collections.abc import Iterator
from typing import NamedTuple

import orjson

from relay_operator.api.meta import ObjectKey
from tests.model import acts, answers, invariants
from tests.model.asked import (
    CONFLICT,
    MISSING,
    NO_ANSWER,
    REFUSED,
    Answer,
    Begin,
    Create,
    Drop,
    Look,
    Patch,
    Power,
    Save,
    Scale,
    Sent,
    Terminate,
)
from tests.model.configurations import Configuration
from tests.model.memories import aged, searching
from tests.model.neighbours import ACCOUNT, Oracle
from tests.model.objects import BATCH, id_of, key_of, known, number_of, patched, version_of_text
from tests.model.passes import Beginning, End, Loading, Passes
from tests.model.state import NOBODY, Books, Request, Resource, State, Task, idle, put, uid_in


class Move(NamedTuple):
    """One step: its description, the state after it, and the invariant that it breaks; empty if none."""

    label: str
    state: State
    broken: str = ""


class World:
    """One configuration with the operator's passes."""

    def __init__(self, config: Configuration, passes: Passes) -> None:
        self.config, self.passes = config, passes
        self.keys = tuple(key_of(name, config.kind) for name in config.names)

    # -- reading a state -----------------------------------------------------------------------------------------

    def leads(self, state: State, number: int) -> bool:
        return state.leases[state.processes[number].cluster] == number

    def may_write(self, state: State, number: int) -> bool:
        """Whether the guard lets the process send."""
        return self.config.unguarded or self.leads(state, number) or state.processes[number].stopping

    def role(self, state: State, number: int) -> str:
        process = state.processes[number]
        role = "leader" if self.leads(state, number) else "old leader" if process.led else "standby"
        return role if len(state.leases) == 1 else f"{role} of cluster {process.cluster + 1}"

    def name(self, slot: int) -> str:
        name = self.config.names[slot]
        return name if len(set(self.config.clusters)) == 1 else f"{name}@{self.config.clusters[slot] + 1}"

    def slots(self, cluster: int) -> list[int]:
        """Returns the slots of one cluster's objects."""
        return [slot for slot, of in enumerate(self.config.clusters) if of == cluster]

    def cached(self, state: State, number: int) -> tuple[bytes | None, ...]:
        return state.processes[number].cache or state.objects

    def slot_of(self, state: State, number: int, key: ObjectKey) -> int:
        """Returns the slot of the object with this key in the process's cluster."""
        return next(slot for slot in self.slots(state.processes[number].cluster) if self.keys[slot] == key)

    # -- changing a state ----------------------------------------------------------------------------------------

    def process(self, state: State, number: int, **changes: object) -> State:
        changed_one = state.processes[number]._replace(**changes)  # type: ignore[arg-type]
        return state._replace(processes=put(state.processes, number, changed_one))

    def task(self, state: State, number: int, old: Task | None, new: Task | None) -> State:
        """Returns the state in which the process has the new task instead of the old one; either may be None."""
        rest = [task for task in state.processes[number].tasks if task is not old]
        return self.process(state, number, tasks=tuple(sorted([*rest, new] if new is not None else rest)))

    def remember(self, state: State, number: int, key: ObjectKey, memory: object) -> State:
        rest = [one for one in state.processes[number].memory if one[0] != key]
        return self.process(state, number, memory=tuple(sorted([*rest, (key, memory)] if memory else rest, key=_first)))

    def _learns(self, state: State, number: int, slot: int, answer: bytes) -> State:
        """Returns the state after the answer to a write has entered the writer's cache."""
        cache, own = state.processes[number].cache, known(answer)
        there = None if own.deleting and not own.held else answer
        return self.process(state, number, cache=put(cache, slot, there)) if cache else state

    def resource(self, state: State, number: int, resource: Resource) -> State:
        return state._replace(resources=put(state.resources, number - 1, resource))

    def end_process(self, state: State, number: int) -> State:
        requests = tuple(r._replace(sender=NOBODY) if r.sender == number else r for r in state.requests)
        leases = tuple(NOBODY if holder == number else holder for holder in state.leases)
        ended = put(state.processes, number, idle(state.processes[number]))
        return state._replace(requests=requests, leases=leases, processes=ended)

    # -- all moves -----------------------------------------------------------------------------------------------

    def moves(self, state: State) -> Iterator[Move]:
        """Yields what can happen without faults and people."""
        yield from self._cloud(state)
        yield from self._time(state)
        for number, process in enumerate(state.processes):
            if state.leases[process.cluster] == NOBODY and not process.led:
                yield Move("a standby wins the Lease", self._won(state, number))
            if process.led and not self.leads(state, number):
                yield Move("the old leader's process ends", self.end_process(state, number))
            if process.cache is not None:
                yield from self._catch_up(state, number)
            if self.leads(state, number):
                yield from self._read_config_maps(state, number)
                yield from self._begin(state, number)
            for task in process.tasks:
                for move in self._go_on(state, number, task):
                    yield move._replace(label=f"{self.role(state, number)}: {move.label}")

    def acts(self, state: State) -> Iterator[Move]:
        """Yields faults and acts of people; each uses up a part of `left`."""
        if not state.left[0]:
            return
        for place, (name, _) in enumerate(self.config.acts, 1):
            if state.left[place]:
                left = put(put(state.left, 0, state.left[0] - 1), place, state.left[place] - 1)
                for label, after in acts.ACTS[name](self, state):
                    excused = after.excused or acts.forgotten(self, left)
                    yield Move(f"[{label}]", after._replace(left=left, excused=excused))

    def _won(self, state: State, number: int) -> State:
        """Returns the state in which the process leads and, as a new leader first does, has listed everything."""
        cluster = state.processes[number].cluster
        won = self._loaded(self.process(state, number, led=True, cache=None), number)
        return won._replace(leases=put(state.leases, cluster, number))

    def _loaded(self, state: State, number: int) -> State:
        """Returns the state after the process has read the ConfigMaps and deleted unneeded ones."""
        process = state.processes[number]
        maps = tuple((name, body) for cluster, name, body in state.config_maps if cluster == process.cluster)
        if not maps and process.books == Books():
            return state
        books, dropped = self.passes.loaded(Loading(maps, process.books))
        left = tuple(one for one in state.config_maps if one[0] != process.cluster or one[1] not in dropped)
        return self.process(state._replace(config_maps=left), number, books=books)

    def _read_config_maps(self, state: State, number: int) -> Iterator[Move]:
        after = self._loaded(state, number)
        if after != state:
            yield Move("the leader's repairing list reads the ConfigMaps", after)

    def gone(self, state: State, slot: int, body: bytes) -> State:
        """Returns the state after a deletion: the leader's watch reports it at once, one that is behind will later."""
        cluster = self.config.clusters[slot]
        for number, process in enumerate(state.processes):
            if process.cluster == cluster and process.cache is not None:
                state = self.process(state, number, missed=(*process.missed, (self.keys[slot], body)))
            elif state.leases[cluster] == number:
                state = self._reported(state, number, self.keys[slot], body)
        return state

    def _reported(self, state: State, number: int, key: ObjectKey, body: bytes) -> State:
        """Returns the state after the process's watch has reported a deletion."""
        process = state.processes[number]
        claims = tuple(claim for claim in process.claims if claim[0] != key)
        return self.process(state, number, claims=claims, books=self.passes.gone(key, body, process.books))

    def _catch_up(self, state: State, number: int) -> Iterator[Move]:
        """Yields how a watch that is behind catches up.

        It reports the deletions that it missed, one at a time, then what exists now; or the API server has forgotten
        the events, and all objects are listed.
        """
        process, whose = state.processes[number], f"the {self.role(state, number)}'s watch"
        assert process.cache is not None
        current = self.process(state, number, cache=None, missed=())
        if not process.missed:
            yield Move(f"{whose} catches up", current)
            return
        (key, body), *later = process.missed
        cache = put(process.cache, self.slot_of(state, number, key), None)
        behind = self.process(state, number, cache=cache, missed=tuple(later))
        yield Move(f"{whose} reports the end of {known(body).uid}", self._reported(behind, number, key, body))
        there = {self.keys[slot]: (process.cache[slot], state.objects[slot]) for slot in self.slots(process.cluster)}
        books = self.passes.relisted(tuple(there.items()), process.books)
        gone = {key for key, (_, now) in there.items() if now is None}
        claims = tuple(claim for claim in process.claims if claim[0] not in gone)
        yield Move(f"{whose} starts again, with a list", self.process(current, number, books=books, claims=claims))

    # -- the cloud and time --------------------------------------------------------------------------------------

    def _cloud(self, state: State) -> Iterator[Move]:
        for place, request in enumerate(state.requests):
            rest = state.requests[:place] + state.requests[place + 1 :]
            if request.sender == NOBODY:
                yield Move("the cloud never acts on the create in flight", state._replace(requests=rest))
            number, after = self.acted(state, place)
            late = " late" if request.sender == NOBODY else ""
            if request.sender != NOBODY:
                after = self.answered(after, request.sender, self.waiting(state, request), id_of(number))
            yield Move(f"the cloud acts{late}: makes #{number}, named {request.name}", after)
        for number, resource in enumerate(state.resources, 1):
            if resource.alive and not (resource.ready or resource.failed):
                yield Move(f"#{number} comes up", self.resource(state, number, resource._replace(ready=True)))
        for number in state.webhooks:
            for leader in state.leases:
                if leader != NOBODY:
                    hints = state.processes[leader].hints | {number}
                    told = self.process(state._replace(webhooks=state.webhooks - {number}), leader, hints=hints)
                    yield Move(f"a webhook tells the leader of #{number}", told)

    def acted(self, state: State, place: int) -> tuple[int, State]:
        """Carries out a create; returns the number of the new resource and the state after it."""
        request, number = state.requests[place], len(state.resources) + 1
        ready = not self.config.blue_green
        made = Resource(True, request.name, request.organization, request.image, owner=request.owner, ready=ready)
        after = state._replace(
            requests=state.requests[:place] + state.requests[place + 1 :], resources=(*state.resources, made)
        )
        return number, after if self.config.lists else after._replace(webhooks=after.webhooks | {number})

    def waiting(self, state: State, request: Request) -> Task:
        """Returns the pass that waits for the answer to this create."""
        tasks = state.processes[request.sender].tasks
        return next(
            task for task in tasks if task.waiting and self.passes.nodes[task.node].uid == uid_in(request.owner)
        )

    def _time(self, state: State) -> Iterator[Move]:
        for number, process in enumerate(state.processes):
            for key, memory in process.memory:
                if key == ACCOUNT:
                    continue
                over = not searching(memory) or not self.in_flight(state, dict(memory)["uid"])
                older = aged(memory, search=over)
                if older != memory:
                    label = f"{self.role(state, number)}: time passes for {key.name}"
                    yield Move(label, self.remember(state, number, key, older))

    def in_flight(self, state: State, uid: object) -> bool:
        """Whether a create for this object may still be acted on."""
        nodes = (self.passes.nodes[task.node] for one in state.processes for task in one.tasks if not task.waiting)
        sending = any(isinstance(node.asks, Create) and node.uid == uid for node in nodes)
        return sending or any(uid_in(request.owner) == uid for request in state.requests)

    # -- a pass begins -------------------------------------------------------------------------------------------

    def _begin(self, state: State, number: int) -> Iterator[Move]:
        """Yields passes that can begin: one at a time; with `beside`, one over an object and one over the account."""
        process = state.processes[number]
        busy = {self.config.beside and task.key == ACCOUNT for task in process.tasks}
        if busy and not self.config.beside:
            return
        cached = self.cached(state, number)
        bodies = [(self.keys[slot], cached[slot]) for slot in self.slots(process.cluster)]
        for key, body in [*bodies, *sorted((one.key, one.body) for one in process.books.departed)]:
            if body is not None and False not in busy:
                yield from self.begin(state, number, key, body)
        # A day, after which orphans are ended, is longer than the time between two repairing lists.
        reads = self.config.orphans_end and self._loaded(state, number) != state
        if True not in busy and not reads and (state.resources or process.books != Books()):
            yield from self.begin(state, number, ACCOUNT, b"")

    def begin(
        self, state: State, number: int, key: ObjectKey, body: bytes, *, lags: bool = False, how: str = ""
    ) -> Iterator[Move]:
        """Yields a pass over an object or the account, up to its first deed; nothing if it changes nothing."""
        process = state.processes[number]
        memory = next((memory for of, memory in process.memory if of == key), ())
        installation = "" if self.config.nameless else f"cafe{process.cluster}"
        beginning = Beginning(installation, key, body, memory, process.books)
        node = self.passes.begun(beginning, self._oracle(state, number, lags=lags))
        after = self._on(state, number, key, node, process.books, lags=lags)
        if after != state:
            role, what = self.role(state, number), self._doing(after, number, key)
            yield Move(f"{role} {_called(key)}{how}: {what}", after)

    def _on(self, state: State, number: int, key: ObjectKey, node: int, was: Books, *, lags: bool = False) -> State:
        """Answers looks until the pass has ended or is about to do a deed; returns the state after it."""
        while isinstance(look := self.passes.nodes[node].asks, Look):
            answer, state = answers.to(self, state, number, look, lags=lags)
            node = self.passes.answered(node, answer, self._oracle(state, number, lags=lags))
        reached = self.passes.nodes[node]
        if reached.books != was:
            state = self.process(state, number, books=state.processes[number].books.after(was, reached.books))
        if isinstance(reached.asks, End):
            return self.remember(state, number, key, reached.asks.memory)
        return self.task(state, number, None, Task(key, node))

    def _oracle(self, state: State, number: int, *, lags: bool = False) -> Oracle:
        """Returns a function that answers looks from this state on, up to the first deed."""

        def answer(look: Look) -> Answer:
            nonlocal state
            found, state = answers.to(self, state, number, look, lags=lags)
            return found

        return answer

    def _doing(self, state: State, number: int, key: ObjectKey) -> str:
        for task in state.processes[number].tasks:
            if task.key == key:
                return f"goes to {described(self.passes.nodes[task.node].asks)}"
        return "remembers it"

    # -- a pass goes on ------------------------------------------------------------------------------------------

    def answered(self, state: State, number: int, task: Task, answer: Answer) -> State:
        """Returns the state after the pass got this answer and went on to its next deed or its end."""
        node = self.passes.answered(task.node, answer, self._oracle(state, number))
        was = self.passes.nodes[task.node].books
        return self._on(self.task(state, number, task, None), number, task.key, node, was)

    def _go_on(self, state: State, number: int, task: Task) -> Iterator[Move]:
        if task.waiting:
            if task.answer is not None:
                yield from self._arrives(state, number, task)
            return
        deed = self.passes.nodes[task.node].asks
        match deed:
            case Patch():
                yield self.patch(state, number, task, deed)
            case Save() | Drop():
                yield self.config_map(state, number, task, deed)
            case Begin():
                yield self.guarded(state, number, task)
            case Create() | Terminate() | Power() | Scale():
                yield self._sent(state, number, task, deed)
            case _:
                raise AssertionError(f"no deed: {deed}")

    def _acted(self, state: State, number: int, task: Task, answer: Answer, *, held: bool) -> State:
        """Returns the state after a deed: the pass goes on, or waits if its answer is held up."""
        if held:
            return self.task(state, number, task, task._replace(waiting=True, answer=answer))
        return self.answered(state, number, task, answer)

    def _arrives(self, state: State, number: int, task: Task) -> Iterator[Move]:
        """Yields what becomes of an answer that was held up."""
        deed = self.passes.nodes[task.node].asks
        what = f"the answer to '{described(deed)}'"
        yield Move(f"{what} is lost", self.answered(state, number, task, NO_ANSWER))
        if isinstance(deed, Patch):
            assert isinstance(task.answer, bytes)
            state = self._learns(state, number, self.slot_of(state, number, deed.key), task.answer)
        yield Move(f"{what} arrives", self.answered(state, number, task, task.answer))

    def patch(self, state: State, number: int, task: Task, deed: Patch, *, held: bool = False) -> Move:
        """Patches an object if the version fits; `held`: the pass waits for the answer."""
        slot = self.slot_of(state, number, deed.key)
        before, words = state.objects[slot], f"{described(deed)} ({self.name(slot)})"
        if before is None:
            return Move(f"{words}: 404", self.answered(state, number, task, MISSING))
        if deed.version not in ("", known(before).version):
            return Move(f"{words}: 409", self.answered(state, number, task, CONFLICT))
        after = patched(before, deed.patch)
        if state.refuses and known(after).ids - known(before).ids:
            return Move(f"{words}: 422", self.answered(state, number, task, REFUSED))
        broken = invariants.writing(self, state, before, after)
        state = invariants.recorded(self, state, before, after)
        if known(before).deleting and not known(after).held:
            broken = broken or invariants.releasing(state, before)
            state = invariants.kept(self, state, before)
            state = self.gone(state._replace(objects=put(state.objects, slot, None)), slot, before)
            words = f"takes the finalizer off {self.name(slot)}: it goes"
        else:
            state = state._replace(objects=put(state.objects, slot, after))
        if not held:
            state = self._learns(state, number, slot, after)
        return Move(words, self._acted(state, number, task, after, held=held), broken)

    def config_map(self, state: State, number: int, task: Task, deed: Save | Drop, *, held: bool = False) -> Move:
        cluster = state.processes[number].cluster
        rest = tuple(one for one in state.config_maps if one[:2] != (cluster, deed.name))
        there = len(rest) != len(state.config_maps)
        if isinstance(deed, Save) and deed.new and there:
            return Move(f"{described(deed)}: it is there", self.answered(state, number, task, CONFLICT))
        before = next((body for of, name, body in state.config_maps if (of, name) == (cluster, deed.name)), None)
        is_another = deed.version and (before is None or version_of_text(before) != deed.version)
        if is_another and isinstance(deed, Drop) and before is None:
            return Move(f"{described(deed)}: 404", self.answered(state, number, task, MISSING))
        if is_another:
            return Move(f"{described(deed)}: 409", self.answered(state, number, task, CONFLICT))
        maps = (*rest, (cluster, deed.name, deed.body)) if isinstance(deed, Save) else rest
        after = state._replace(config_maps=tuple(sorted(maps)))
        broken = invariants.letting_go(self, state, task) if isinstance(deed, Drop) else ""
        return Move(described(deed), self._acted(after, number, task, True, held=held), broken)

    def guarded(self, state: State, number: int, task: Task, *, held: bool = False) -> Move:
        """Asks the guard and sends; sending is a separate step only if processes may freeze after the guard."""
        may = self.may_write(state, number) or self._unasked(task)
        state = self.answered(state, number, task, may)
        going_on = next((one for one in state.processes[number].tasks if one.key == task.key), None)
        deed = self.passes.nodes[going_on.node].asks if going_on is not None else None
        if going_on is None or not isinstance(deed, Sent):
            return Move("the guard refuses: nothing is sent", state)
        if self.config.freeze_after_guard:
            return Move(f"the guard lets it pass: {described(deed)}", state)
        return self._sent(state, number, going_on, deed, held=held)

    def _unasked(self, task: Task) -> bool:
        """Whether the pass ends a vanished object's resource without asking the guard (a rule switched off)."""
        return self.config.ends_freely and bool(self.passes.nodes[task.node].beginning.key.vanished)

    def _sent(self, state: State, number: int, task: Task, deed: Sent, *, held: bool = False) -> Move:
        if isinstance(deed, Create):
            owner = self._owner(self.passes.nodes[task.node].uid, deed.name)
            request = Request(deed.name, deed.organization, deed.image, owner, number)
            state = self.task(state, number, task, task._replace(waiting=True))
            return Move(f"sends: {described(deed)}", state._replace(requests=(*state.requests, request)))
        there = state.resources[number_of(deed.id) - 1]
        broken = invariants.touching(self, state, task, deed)
        if not there.alive or there.organization != deed.organization:
            return Move(f"{described(deed)}: 404", self.answered(state, number, task, MISSING))
        state = self.resource(state, number_of(deed.id), _after(there, deed))
        return Move(described(deed), self._acted(state, number, task, True, held=held), broken)

    def _owner(self, uid: str, name: str) -> str:
        """Returns the owner of a new resource: the UID; for a batch, also round and part, which are in its name."""
        return "/".join((uid, *name.split("/")[1:3])) if self.config.kind == BATCH else uid


def _after(there: Resource, deed: Terminate | Power | Scale) -> Resource:
    match deed:
        case Power(running=running):
            return there._replace(running=running)
        case Scale(replicas=replicas):
            return there._replace(replicas=replicas)
        case _:
            return there._replace(alive=False)


def described(asks: object) -> str:
    """Returns a deed in words."""
    match asks:
        case Patch(status=True):
            fields = orjson.loads(asks.patch)["status"]
            told = ", ".join(f"{name}={fields[name]}" for name in ("id", "createToken", "replacing") if name in fields)
            return f"write status: {told or ', '.join(fields)}"
        case Patch():
            metadata = orjson.loads(asks.patch)["metadata"]
            return "write the intent" if metadata.get("annotations") else "take the finalizer off"
        case Begin():
            return "ask the cloud for something"
        case Create(name=name):
            return f"create {name}"
        case Terminate(id=cloud_id):
            return f"end #{number_of(cloud_id)}"
        case Power(id=cloud_id, running=running):
            return f"{'start' if running else 'stop'} #{number_of(cloud_id)}"
        case Scale(id=cloud_id, replicas=replicas):
            return f"scale #{number_of(cloud_id)} to {replicas}"
        case Save(name=name):
            return f"keep {name}"
        case Drop(name=name):
            return f"let go of {name}"
        case _:
            return str(asks)


def _called(key: ObjectKey) -> str:
    if key == ACCOUNT:
        return "sweeps"
    return f"looks at {key.name}" + (", which vanished" if key.vanished else "")


def _first(item: tuple[ObjectKey, object]) -> ObjectKey:
    return item[0]
