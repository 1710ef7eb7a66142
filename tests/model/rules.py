"""The operator's rules and how to switch each off: in the real code if the rule is there, else in the model.

A rule that can be switched off without breaking an invariant is either not needed or not explored.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest
from pydantic import JsonValue

from relay_kube import kube
from relay_kube.kube import JsonObject
from relay_operator.api.cloudaccount import Orphans
from relay_operator.api.conditions import Reason
from relay_operator.api.meta import ObjectKey
from relay_operator.engine import identity, persist
from relay_operator.engine.actions import Wait
from relay_operator.engine.cache import Cache
from relay_operator.engine.config_maps import ConfigMaps
from relay_operator.engine.controller import Controller
from relay_operator.engine.identity import Whose
from relay_operator.engine.leftovers import Leftovers
from relay_operator.engine.object_writer import ObjectWriter
from relay_operator.engine.persist import Recorded, Records
from relay_operator.flows.account.sweep import Sweeper
from relay_operator.flows.managed import blue_green, flow, former_look, gather, plan
from relay_operator.flows.managed.flow import ManagedFlow
from relay_operator.flows.managed.look import Looker
from relay_operator.flows.managed.search import Searcher
from relay_operator.flows.managed.view import Former
from tests.model.configurations import Configuration, called
from tests.model.passes import DELAYS, Passes
from tests.model.steps import World

Off = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Rule:
    """One rule, and how to switch it off."""

    meaning: str
    breaks: str
    """The key of the configuration that breaks without the rule."""
    invariant: str
    """The invariant that breaks there, as `I1`."""
    off: Off = lambda _patch: None
    world: Callable[[Configuration], Configuration] = lambda config: config
    long: bool = False
    """Whether breaking it takes too many states for the tests of every change."""
    impatient: bool = False
    """Whether absence counts at once."""


def _config(**changes: Any) -> Callable[[Configuration], Configuration]:
    return lambda config: replace(config, **changes)


def _replaced(target: object, name: str, with_: object) -> Off:
    return lambda patch: patch.setattr(target, name, with_)


_after_conflict, _status = persist.after_conflict, ObjectWriter.status


def _never_superseded(_: Records, found: Records, cloud_id: str) -> Recorded | None:
    return Recorded.WRITTEN if cloud_id in found.ids else None


def _never_recognised(known: Records, found: Records, cloud_id: str) -> Recorded | None:
    return _after_conflict(known, found, f"not {cloud_id}")


def _lost_is_decided(known: Records, found: Records, cloud_id: str) -> Recorded | None:
    lost = not (found.token or found.ids) and known.ids
    return Recorded.SUPERSEDED if lost else _after_conflict(known, found, cloud_id)


def _never_sought(known: Records, found: Records, cloud_id: str) -> Recorded | None:
    decided = _after_conflict(known, found, cloud_id)
    return None if decided is Recorded.SOUGHT else decided


async def _read_of_this_name(self: ObjectWriter) -> JsonObject | None:
    raw = await self.objects.get(self.type, self.key.namespace, self.key.name)
    self.answered(raw)
    return raw


async def _status_unbound(self: ObjectWriter, patch: Mapping[str, JsonValue]) -> None:
    self.version = ""
    await _status(self, patch)


def _unfenced(patch: pytest.MonkeyPatch) -> None:
    """Ignores other objects that have the same resource."""
    patch.setattr(Looker, "_left_to_the_living", _no)
    patch.setattr(Cache, "others", _nobody)


def _undone(patch: pytest.MonkeyPatch) -> None:
    """Does not recognise the process's own write, and undoes it without regard to other objects."""
    patch.setattr(persist, "after_conflict", _never_recognised)
    _unfenced(patch)


async def _deleted_whatever_it_tells(self: ConfigMaps, name: str, _: object = None) -> None:
    await self.kube.delete(kube.CONFIG_MAPS, self.namespace, name)


async def _no_write(*_: object) -> None:
    return None


def _nothing(*_: object) -> None:
    return None


def _no(*_: object, **__: object) -> bool:
    return False


def _yes(*_: object) -> bool:
    return True


def _nobody(*_: object) -> frozenset[ObjectKey]:
    return frozenset()


def _as_it_is(obj: object, _: object) -> object:
    return obj


def _none(*_: object) -> tuple[()]:
    return ()


def _relieved_at_once(_: object, obj: Any, observed: object, *__: object) -> Former | None:
    if blue_green.serving(obj.status) is None:
        return None
    return Former.SERVING if observed is None else Former.RELIEVED


def _nothing_written(*_: object) -> dict[str, object]:
    return {}


def _own(*_: object) -> Whose:
    return Whose.OWN


def _without(rule: object) -> Off:
    """The plan lacks this rule."""
    return _replaced(plan, "RULES", tuple(one for one in plan.RULES if one is not rule))


def _keeps(*_: object) -> Wait:
    return Wait(Reason.DELETING)


RULES: Mapping[str, Rule] = {
    "installation": Rule(
        "1. what is recorded says in which cluster", "installations", "I5", world=_config(nameless=True)
    ),
    "for whom": Rule("2. intent and status say for whom", "copy", "I4", _replaced(identity, "whose", _own)),
    "the object's UID": Rule(
        "3. the id is written to this very object",
        "namesake",
        "I5",
        _replaced(ObjectWriter, "read", _read_of_this_name),
    ),
    "intent, token, ids": Rule(
        "3. after a conflict an id is written only while they are what was known",
        "answered",
        "I2",
        _replaced(persist, "after_conflict", _never_superseded),
    ),
    "lost with the status": Rule(
        "3. that ids were lost with the status is nobody's decision",
        "batch",
        "I1",
        _replaced(persist, "after_conflict", _lost_is_decided),
    ),
    "sought": Rule(
        "3. what a lost status told is searched for, and not written from an older picture",
        "batch",
        "I1",
        _replaced(persist, "after_conflict", _never_sought),
    ),
    "ended first": Rule(
        "3. what status never takes is ended before another is made",
        "refused",
        "I1",
        _replaced(Controller, "_is_ending", _no),
    ),
    "in other words": Rule(
        "3. an intent that is written down in other words is the same",
        "batch-rebuilt",
        "I6",
        _replaced(persist, "intent_of", _nothing),
    ),
    "its own write": Rule(
        "3. an id that stands there already was written, and nothing is undone",
        "own-write",
        "I3",
        _undone,
    ),
    "versions": Rule(
        "3. every write of a status is bound to what was read",
        "recreate",
        "I2",
        _replaced(ObjectWriter, "status", _status_unbound),
    ),
    "guard": Rule(
        "4. right before the first byte: does it still lead?", "namesake", "I4", world=_config(unguarded=True)
    ),
    "guard of ends": Rule(
        "5. only the leader ends anything", "restore", "I3", _unfenced, world=_config(ends_freely=True), long=True
    ),
    "left to the living": Rule(
        "5. what a living object has is not ended for one that vanished",
        "restore",
        "I6",
        _replaced(Looker, "_left_to_the_living", _no),
    ),
    "absence": Rule("6. absence counts only after a long time", "unknown", "I4", impatient=True),
    "late creates": Rule(
        "6. what is found by its name and belongs to nobody is told or ended",
        "answered",
        "I2",
        _replaced(Sweeper, "sweep", _no_write),
    ),
    "put back": Rule(
        "3. an intent that vanishes before its id is written is put back from memory",
        "wipe",
        "I1",
        _replaced(flow, "with_open_intent", _as_it_is),
    ),
    "organization": Rule(
        "7. only an account of the recorded organization can tell",
        "rekey-recreate",
        "I2",
        _replaced(gather, "elsewhere", _nothing),
    ),
    "own names": Rule(
        "8. an intent finds nothing that adopt-id might not",
        "forged",
        "I5",
        _replaced(Searcher, "_unsearchable", _nothing),
    ),
    "what an intent led to": Rule(
        "8. while an intent is open, adopt-id takes only what it may have led to",
        "adopt-open",
        "I1",
        _replaced(Looker, "_answers", _yes),
    ),
    "names of others": Rule(
        "8. adopt-id refuses what carries the name of another object that is there",
        "adopt-named",
        "I5",
        _replaced(Searcher, "givers", _nobody),
    ),
    "kept": Rule("9. what is kept on purpose is never ended", "kept", "I3", _replaced(Leftovers, "kept", _no)),
    "kept meanwhile": Rule(
        "9. what another process keeps on purpose by now is not forgotten",
        "kept-again",
        "I3",
        _replaced(ConfigMaps, "delete", _deleted_whatever_it_tells),
    ),
    "left": Rule(
        "9. what stays is written down before the finalizer goes", "kept", "I3", _replaced(ManagedFlow, "leaves", _none)
    ),
    "shared id": Rule(
        "3. what two objects record is changed and ended by neither",
        "shared",
        "I3",
        _replaced(Cache, "others", _nobody),
    ),
    "Ready first": Rule(
        "blue and green: what serves has its place until the next one is Ready",
        "blue-green",
        "I7",
        _replaced(former_look, "standing", _relieved_at_once),
    ),
    "reinstated": Rule(
        "blue and green: what serves has its place again if the next one fails, is refused or not asked for",
        "blue-green",
        "I7",
        _replaced(blue_green, "reinstated", _nothing_written),
    ),
    "Lease last": Rule("10. the Lease is given back last", "stop", "I4", world=_config(hasty=True)),
    "power": Rule("a workload is stopped and started as its spec says", "power", "I8", _without(plan._update)),
    "scale": Rule("a cluster has as many replicas as its spec says", "scale", "I8", _without(plan._update)),
    "create": Rule("what is asked for is created", "namesake", "I8", _without(plan._create)),
    "end": Rule("what is deleted ends", "unknown", "I8", _replaced(plan, "_end", _keeps)),
}


def passes_of(config: Configuration, rule: Rule | None = None) -> Passes:
    """Returns passes with the settings of a configuration and, if a rule is given, with its delays."""
    delays = replace(DELAYS, unknown=0.0) if rule is not None and rule.impatient else DELAYS
    return Passes(config.kind, delays, Orphans.DELETE if config.orphans_end else Orphans.REPORT)


def without(rule: Rule, patch: pytest.MonkeyPatch) -> World:
    """Switches the rule off and returns the world of the configuration that then breaks."""
    rule.off(patch)
    config = rule.world(called(rule.breaks))
    return World(config, passes_of(config, rule))
