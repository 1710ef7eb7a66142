"""Reduces states that differ only in what cannot matter to one representative."""

from tests.model.memories import mattering
from tests.model.neighbours import ACCOUNT
from tests.model.objects import key_of, known
from tests.model.state import NOBODY, Process, State, idle


def canonical(state: State) -> State:
    """Returns the representative of a state.

    A deposed idle process is as newly started, memories and claims of objects that are gone are dropped, requests have
    no order, and two operators of one cluster are interchangeable.
    """
    processes = tuple(_settled(state, number, process) for number, process in enumerate(state.processes))
    requests = tuple(sorted(state.requests)) if len(state.requests) > 1 else state.requests
    state = state._replace(processes=processes, requests=requests)
    alike = len(processes) == 2 and processes[0].cluster == processes[1].cluster
    if alike and hash(processes[0]) > hash(processes[1]):
        other = {0: 1, 1: 0, NOBODY: NOBODY}
        state = state._replace(
            processes=(processes[1], processes[0]),
            leases=tuple(other[holder] for holder in state.leases),
            requests=tuple(sorted(request._replace(sender=other[request.sender]) for request in state.requests)),
        )
    return state


def _settled(state: State, number: int, process: Process) -> Process:
    if state.leases[process.cluster] != number and not process.tasks:
        return process if process == idle(process) else idle(process)
    if not process.memory and not process.claims:
        return process
    seen = process.cache or state.objects
    there = {(key_of(told.name), told.uid): told for body in seen if body is not None for told in [known(body)]}
    there |= {(one.key, told.uid): told for one in process.books.departed for told in [known(one.body)]}
    kept = []
    for key, memory in process.memory:
        if key == ACCOUNT:
            kept.append((key, memory))
            continue
        told = there.get((key, str(dict(memory)["uid"])))
        if told is not None:
            alive = told.id > 0 and state.resources[told.id - 1].alive
            left = mattering(memory, told, alive)
            if left:
                kept.append((key, left))
    names = {key for key, _ in there}
    claims = tuple(claim for claim in process.claims if claim[0] in names)
    return process._replace(memory=tuple(kept), claims=claims)
