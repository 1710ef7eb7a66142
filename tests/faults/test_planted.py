"""Proves each oracle: it catches the bug that is planted for it into a copy of the operator."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from tests.faults.every_scenario import SCENARIOS
from tests.faults.plans import Plan, Word
from tests.faults.planting import PATCHES, apply, planted
from tests.faults.plays import Plays
from tests.faults.scenarios import CLUSTER, POD
from tests.faults.stage import LEASE
from tests.support.faultrules import Answer, Deed, Hold, Late, Moment, Overtaken, Rule, Side
from tests.support.toolchain import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from tests.faults.learned import Learned
    from tests.faults.neighbour import Neighbour
    from tests.faults.stage import Stages
    from tests.support.localcloud import LocalCloud


@dataclass(frozen=True)
class Planted:
    """The plan under which a bug shows, and part of the message of the oracle that must catch it."""

    scenario: str
    caught: str
    rules: tuple[Rule, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    replicas: int = 1

    @property
    def plan(self) -> Plan:
        """The plan to play."""
        return Plan("planted", self.scenario, self.rules, word=Word.AS_FOUND, within=60.0)


_KILLED = Hold(Moment.ACTED, Deed.KILL_OPERATOR)
_FROZEN = Hold(Moment.ACTED, Deed.FREEZE_OPERATOR)
_NO_ROOM = Answer(503, '{"error": "made up", "code": "NODE_AT_CAPACITY"}')
_REFUSED = Answer(422, '{"error": "made up", "code": "INVALID"}')
_TWO = "for an object that had"
PLANTED = {
    "the-finalizer-goes-without-looking": Planted("pod", "the finalizer is gone, and in the cloud there is still"),
    "what-is-deleted-is-let-go-alive": Planted("moved-pod", "alive in the cloud"),
    "what-is-kept-is-not-told": Planted("kept-pod", "alive in the cloud"),
    "an-open-intent-reads-as-not-created": Planted("cluster", _TWO, (Rule(Side.CLOUD, CLUSTER.create, _KILLED),)),
    "absence-is-believed-at-once": Planted("cluster", _TWO, (Rule(Side.CLOUD, CLUSTER.create, Late(1.5)),)),
    "who-leads-no-more-goes-on": Planted(
        "cluster", _TWO, (Rule(Side.KUBE, "PATCH gpuclusters", _FROZEN),), settings=LEASE, replicas=2
    ),
    "an-id-is-written-without-its-tests": Planted("namesake-in-mid-create", "which was made for"),
    "a-copy-takes-over": Planted("copied-pod", "which was made for"),
    "the-replaced-is-forgotten-alive": Planted("recreated-pod", _TWO),
    "a-secret-is-told": Planted("pod", "a secret is told in: the operator's log"),
    "status-is-rewritten-at-every-look": Planted("pod", "the operator is quiet did not come true"),
    "what-was-foreseen-is-logged-as-a-failure": Planted("pod", "Traceback", (Rule(Side.CLOUD, POD.look[0], _REFUSED),)),
    "failures-are-never-forgotten": Planted(
        "pod", "it ends otherwise than undisturbed", (Rule(Side.CLOUD, POD.create, _NO_ROOM),)
    ),
    "a-late-create-is-left-alive": Planted(
        "cluster",
        "everything is as its author wants it did not come true",
        (Rule(Side.CLOUD, CLUSTER.create, Overtaken()),),
    ),
    "every-installation-counts-as-this-one": Planted("neighbours", "takes the other installation's for its own"),
    "what-is-restored-is-taken-for-a-copy": Planted("restored-pod", _TWO),
    "a-change-is-never-sent": Planted("stopped-pod", "everything is as its author wants it did not come true"),
}


def test_every_patch_is_played() -> None:
    assert {path.stem for path in PATCHES.glob("*.patch")} == set(PLANTED)
    assert {one.scenario for one in PLANTED.values()} <= set(SCENARIOS)


@pytest.mark.parametrize("name", PLANTED)
def test_every_patch_fits_the_code_as_it_is(name: str) -> None:
    apply(name, REPOSITORY, "--check")


@pytest.fixture
def failure_of(
    stages: Stages, fault_cloud: LocalCloud, neighbour: Neighbour, learned: Learned, tmp_path: Path
) -> Callable[..., Awaitable[str]]:
    """Plays the plan of a planted bug, with the operator under a command; returns how it failed, empty if it held."""

    async def play(bug: Planted, *under: str) -> str:
        if learned.find(bug.scenario) is None:
            async with stages.stage(fault_cloud, bug.settings, neighbour=neighbour) as stage:
                await Plays(stage, tmp_path, learned).learned(bug.scenario)
        async with stages.stage(fault_cloud, bug.settings, bug.replicas, neighbour=neighbour, under=under) as stage:
            return await Plays(stage, tmp_path, learned).failure_of(bug.plan)

    return play


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("name", PLANTED)
async def test_a_planted_bug_is_caught(name: str, failure_of: Callable[..., Awaitable[str]], tmp_path: Path) -> None:
    bug = PLANTED[name]
    failure = await failure_of(bug, "env", f"PYTHONPATH={planted(name, tmp_path)}")
    assert bug.caught in failure, f"not caught: {failure or 'the plan holds'}"


@pytest.mark.long
@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("name", [name for name, bug in PLANTED.items() if bug.rules])
async def test_without_the_bug_its_plan_holds(name: str, failure_of: Callable[..., Awaitable[str]]) -> None:
    assert not await failure_of(PLANTED[name])
