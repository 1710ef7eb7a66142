"""The small worlds that the model explores, each with the faults and acts of people that belong to one danger."""

from dataclasses import dataclass

from pydantic import JsonValue

from relay_kube.kube import JsonObject
from tests.model.neighbours import orphan
from tests.model.objects import BATCH, KIND, applied, known, recording
from tests.model.state import NOBODY, Process, Resource, State

Acts = tuple[tuple[str, int], ...]
BATCH_SPEC: JsonObject = {
    "model": "m", "endpoint": "/v1/chat/completions", "deletionPolicy": "Discard",
    "input": {"configMapRef": {"name": "in", "key": "in"}}, "output": {"configMapRef": {"name": "out"}},
}  # fmt: skip
OTHERS = "others"
"""The owner of resources that people created."""


@dataclass(frozen=True)
class Configuration:
    """One world and what may happen in it: each of `acts` at most so many times, at most `most` acts in all."""

    key: str
    question: str
    acts: Acts
    most: int = 3
    brief: int = 0
    """The limit instead of `most` in the tests of every change; 0: `most`."""
    names: str = "a"
    """The names of all possible objects, a letter each."""
    objects: int = 1
    """How many of them exist at the start."""
    across: bool = False
    """Whether each object is in its own cluster with its own operator; else one cluster has two operators."""
    kind: str = KIND
    lists: bool = True
    """Whether the kind can be listed by name (clusters) or not (pods)."""
    adoption: bool = False
    recreate: bool = False
    blue_green: bool = False
    """Whether a replaced resource serves until its successor is Ready, which may fail to come up."""
    freeze_after_guard: bool = False
    foreign: bool = False
    """Whether a resource that people created exists."""
    shared: bool = False
    """Whether two objects may record one id; only what they do with it is checked."""
    both_record: bool = False
    """Whether two objects record one id from the start, as after a failover let both adopt it."""
    adopted: bool = False
    """Whether the object has adopted an orphan that a ConfigMap still records."""
    unguarded: bool = False
    """Whether processes send without asking who leads: a rule switched off."""
    ends_freely: bool = False
    """Whether processes end resources of vanished objects without asking who leads: a rule switched off."""
    hasty: bool = False
    """Whether a leader that stops releases its Lease during a pass: a rule switched off."""
    nameless: bool = False
    """Whether operators do not know which cluster they belong to: a rule switched off."""
    beside: bool = False
    """Whether a pass over the account may run concurrently with one over an object."""
    orphans_end: bool = False
    """Whether the account has `orphans: Delete`, with the day of grace over."""
    ended: bool = False
    """Whether at rest no resource may live without its object."""
    resources: int = 4
    intents: int = 5

    @property
    def clusters(self) -> tuple[int, ...]:
        """The cluster of each object."""
        return tuple(range(len(self.names))) if self.across else (0,) * len(self.names)

    @property
    def operators(self) -> tuple[int, ...]:
        """The cluster of each operator."""
        return (0, 1) if self.across else (0, 0)

    def start(self) -> State:
        """Returns the initial state: free Leases, new objects, and only the resources that the configuration names."""
        spec: dict[str, JsonValue] = {"image": "v1", "replicas": 1}
        if self.kind == BATCH:
            spec = {**BATCH_SPEC}
        if self.recreate:
            spec |= {"updateStrategy": {"type": "Recreate"}, "recovery": {"onTerminated": "Recreate"}}
        if self.blue_green:
            spec |= {"updateStrategy": {"type": "BlueGreen", "drainSeconds": 0}}
        there = [applied(self.kind, name, number, spec) for number, name in enumerate(self.names[: self.objects], 1)]
        strange = Resource(True, "somebody-elses", 1, "v1", owner=OTHERS)
        if self.both_record:
            there, strange = [recording(one) for one in there], strange._replace(owner=known(there[0]).uid)
        config_maps: tuple[tuple[int, str, bytes], ...] = ()
        if self.adopted:
            name, config_maps = orphan(1)
            there = [recording(one, name) for one in there]
            strange = Resource(True, name, 1, "v1", owner=known(there[0]).uid)
        return State(
            objects=(*there, *[None] * (len(self.names) - self.objects)),
            organizations=(1,) * (max(self.clusters) + 1),
            leases=(NOBODY,) * (max(self.operators) + 1),
            processes=tuple(Process(cluster) for cluster in self.operators),
            left=(self.most, *(count for _, count in self.acts)),
            resources=(strange,) if self.foreign or self.adopted else (),
            config_maps=config_maps,
            uids=self.objects + 1,
        )


def _acts(**counts: int) -> Acts:
    return tuple(counts.items())


_FAULTS = _acts(
    crash=1, depose=1, lag=1, give_up=1, lose_answer=1, reject=1, lose_write=1, late=1, list_lag=1, end_outside=1
)
_PEOPLE = _acts(
    delete=1, vanish=1, force=1, replace_object=1, copy=1, restore=1, edit=1, scale=1, switch=1, rekey=1, orphan=1,
    stop_policy=1, abandon=1, adopt=1, retry=1, wipe_annotations=1, wipe_status=1,
)  # fmt: skip
_NAMESAKE = _acts(depose=1, replace_object=1, crash=1, give_up=1, delete=1)
_RESTORE = _acts(restore=1, crash=1, depose=1, delete=1, give_up=1)

CONFIGURATIONS = (
    Configuration(
        "namesake",
        "a frozen leader, and a namesake of its object",
        _NAMESAKE,
        brief=2,
    ),
    Configuration(
        "namesake-pod",
        "the same without a list",
        _NAMESAKE,
        lists=False,
        brief=1,
    ),
    Configuration(
        "answered",
        "a person answers while a leader is frozen",
        _acts(depose=1, retry=1, give_up=1, crash=1, lose_answer=1),
        brief=2,
    ),
    Configuration(
        "unknown",
        "deleted while the outcome is unknown",
        _acts(give_up=1, lose_answer=1, delete=1, crash=2, reject=1),
        most=4,
    ),
    Configuration(
        "unknown-pod",
        "the same without a list",
        _acts(give_up=1, lose_answer=1, delete=1, crash=2, retry=1, reject=1),
        most=4,
        lists=False,
        brief=2,
    ),
    Configuration(
        "vanished",
        "deleted as the finalizer is written",
        _acts(vanish=1, depose=1, crash=1, give_up=1, lose_answer=1, lose_write=1),
        brief=2,
    ),
    Configuration(
        "departed",
        "the same, and nobody crashes",
        _acts(vanish=1, give_up=1, lose_answer=1, lose_write=1),
        ended=True,
    ),
    Configuration(
        "vanished-again",
        "an object that vanishes with a newer create than a frozen leader tells of",
        _acts(vanish=1, depose=1, edit=1, crash=1),
        most=4,
        recreate=True,
        brief=2,
    ),
    Configuration(
        "late",
        "a late create, crash, delete",
        _acts(give_up=1, late=1, crash=1, delete=1, depose=1),
        brief=2,
    ),
    Configuration(
        "late-beside",
        "the account's pass beside the object's",
        _acts(give_up=1, late=1, retry=1, delete=1),
        most=2,
        beside=True,
    ),
    Configuration(
        "rekey",
        "a key of another organization in mid-create",
        _acts(give_up=1, crash=1, depose=1, rekey=2, delete=1, edit=1),
        most=4,
        brief=2,
    ),
    Configuration(
        "rekey-recreate",
        "another organization, and what is gone is recreated",
        _acts(rekey=2, delete=1, edit=1, crash=1),
        recreate=True,
    ),
    Configuration(
        "copy",
        "a copy with status and annotations",
        _acts(copy=1, delete=2, edit=1, crash=1, give_up=1),
        names="ab",
        brief=2,
    ),
    Configuration(
        "copy-pod",
        "the same without a list, and a frozen leader",
        _acts(copy=1, delete=2, depose=1, give_up=1),
        names="ab",
        lists=False,
        brief=2,
    ),
    Configuration(
        "installations",
        "two clusters in one organization, and a copy across",
        _acts(copy=1, delete=2, crash=1, give_up=1),
        names="aa",
        across=True,
        adoption=True,
        orphans_end=True,
        brief=2,
    ),
    Configuration(
        "stale",
        "a watch that falls behind",
        _acts(lag=1, depose=1, crash=1, edit=1, give_up=1, delete=1, replace_object=1),
        brief=2,
    ),
    Configuration(
        "recreate",
        "a change that recreates, with failover",
        _acts(edit=1, depose=2, crash=1, end_outside=1, reject=1),
        recreate=True,
        brief=2,
    ),
    Configuration(
        "blue-green",
        "another takes the place of what serves, with failover",
        _acts(edit=1, fail=1, depose=1, crash=1, give_up=1, reject=1),
        blue_green=True,
        brief=2,
    ),
    Configuration(
        "blue-green-again",
        "changed again, stopped or deleted while another is on its way",
        _acts(edit=2, switch=1, fail=1, delete=1, end_outside=1, stop_policy=1),
        blue_green=True,
        brief=2,
    ),
    Configuration(
        "blue-green-lost",
        "answers, writes and annotations lost while another is on its way",
        _acts(edit=1, give_up=1, lose_answer=1, lose_write=1, late=1, wipe_annotations=1, depose=1, delete=1),
        blue_green=True,
        brief=2,
    ),
    Configuration(
        "restore",
        "restored with another UID",
        _RESTORE,
        adoption=True,
        brief=2,
    ),
    Configuration(
        "restore-refused",
        "the same, adoption not allowed",
        _RESTORE,
        brief=2,
    ),
    Configuration(
        "adopters",
        "two objects with one adopt-id",
        _acts(adopt=2, depose=1, delete=1),
        names="ab",
        objects=2,
        adoption=True,
        foreign=True,
        shared=True,
        brief=1,
    ),
    Configuration(
        "shared",
        "two objects that record one id",
        _acts(delete=2, abandon=1, switch=1, depose=1, crash=1),
        names="ab",
        objects=2,
        adoption=True,
        foreign=True,
        both_record=True,
    ),
    Configuration(
        "adopt-late",
        "a late create that another object adopts",
        _acts(give_up=1, adopt=1, retry=1, delete=1),
        names="ab",
        objects=2,
        adoption=True,
        brief=1,
    ),
    Configuration(
        "adopt-open",
        "what people made is adopted while a create is open",
        _acts(give_up=1, adopt=1, delete=1, crash=1),
        adoption=True,
        foreign=True,
    ),
    Configuration(
        "adopt-named",
        "what is another object's by its name is adopted, with failover",
        _acts(adopt=1, depose=1, delete=1, crash=1),
        names="ab",
        objects=2,
        adoption=True,
        brief=1,
    ),
    Configuration("forged", "a hand-written intent", _acts(forge=1, delete=1, crash=1), foreign=True),
    Configuration(
        "kept",
        "kept on purpose",
        _acts(orphan=1, delete=1, crash=1, depose=1),
        orphans_end=True,
        brief=2,
    ),
    Configuration(
        "kept-again",
        "an orphan is adopted, and kept on purpose, while a leader is frozen",
        _acts(orphan=1, delete=1, depose=1),
        adopted=True,
        orphans_end=True,
    ),
    Configuration(
        "wipe",
        "annotations or status wiped in mid-create",
        _acts(wipe_annotations=1, wipe_status=1, give_up=1, lose_answer=1),
    ),
    Configuration(
        "batch",
        "status, and annotations with it, wiped while the id of a batch's part is on its way",
        _acts(wipe=1, wipe_status=1, depose=1, crash=1, give_up=1),
        kind=BATCH,
        brief=2,
    ),
    Configuration(
        "batch-rebuilt",
        "the intent wiped, and rebuilt from status, while the id of a batch's part is on its way",
        _acts(wipe_annotations=1, depose=1, crash=1, give_up=1),
        kind=BATCH,
    ),
    Configuration(
        "own-write",
        "the answer to a write is lost",
        _acts(lose_write=2, crash=1, depose=1, give_up=1, delete=1),
        brief=2,
    ),
    Configuration(
        "refused",
        "the API server refuses ids for good",
        _acts(refuse=1, crash=1, delete=1, give_up=1, lose_answer=1),
        brief=2,
    ),
    Configuration("stop", "a leader that is told to stop", _acts(stop_old=1, crash=1, give_up=1, delete=1)),
    Configuration(
        "power",
        "stopped and started, with failover",
        _acts(switch=2, depose=1, crash=1, delete=1, lose_write=1),
        brief=2,
    ),
    Configuration(
        "scale",
        "scaled, with failover",
        _acts(scale=1, depose=1, crash=1, delete=1, edit=1),
        recreate=True,
        brief=2,
    ),
    Configuration(
        "abandon",
        "abandoned in every state",
        _acts(abandon=1, delete=1, depose=1, give_up=1, crash=1),
        most=4,
        brief=2,
    ),
    Configuration(
        "stop-policy",
        "stopped and kept when it is deleted",
        _acts(stop_policy=1, delete=1, crash=1, depose=1, switch=1),
        most=4,
        brief=2,
    ),
    Configuration(
        "frozen-guard",
        "a process frozen after the guard",
        _acts(depose=1, crash=1, delete=1, edit=1),
        recreate=True,
        freeze_after_guard=True,
        brief=2,
    ),
    Configuration(
        "pairs",
        "any two of everything",
        (*_FAULTS, *_PEOPLE),
        most=2,
        names="ab",
        recreate=True,
        brief=1,
    ),
    Configuration(
        "pairs-pod",
        "the same without a list",
        (*_FAULTS, *_PEOPLE, *_acts(lose_webhook=1)),
        most=2,
        names="ab",
        lists=False,
        adoption=True,
        brief=1,
    ),
)


def called(key: str) -> Configuration:
    """Returns the configuration with this key."""
    return next(one for one in CONFIGURATIONS if one.key == key)
