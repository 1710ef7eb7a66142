"""The create protocol holds in every interleaving of small worlds, and each of its rules is needed for that."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.model.configurations import CONFIGURATIONS, Configuration, called
from tests.model.explorer import explore
from tests.model.passes import Passes
from tests.model.rules import RULES, passes_of, without
from tests.model.state import State
from tests.model.steps import World


@pytest.fixture(scope="module")
def played() -> Iterator[dict[tuple[str, bool], Passes]]:
    """Passes by settings; configurations with the same settings share them."""
    passes: dict[tuple[str, bool], Passes] = {}
    yield passes
    for each in passes.values():
        each.close()


def _cases() -> list[object]:
    """Returns all configurations: small ones for every run, large ones in full for long runs, else with fewer acts."""
    marks = [(config, pytest.mark.long if config.brief else pytest.mark.every_run) for config in CONFIGURATIONS]
    brief = [replace(config, most=config.brief) for config in CONFIGURATIONS if config.brief]
    return [
        *(pytest.param(config, id=f"{config.key}-{config.most}", marks=mark) for config, mark in marks),
        *(pytest.param(config, id=f"{config.key}-{config.most}") for config in brief),
    ]


@pytest.mark.parametrize("config", _cases())
def test_it_holds_in_every_interleaving(config: Configuration, played: dict[tuple[str, bool], Passes]) -> None:
    settings = config.kind, config.orphans_end
    if settings not in played:
        played[settings] = passes_of(config)
    outcome = explore(World(config, played[settings]))
    print(f"{config.key:16} {config.most} {outcome}")  # noqa: T201 - kept in docs/create-protocol.md
    assert not outcome.violations, "\n".join(line for trace in outcome.violations.values() for line in [*trace, ""])


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, id=name, marks=pytest.mark.long if rule.long else pytest.mark.every_run)
        for name, rule in RULES.items()
    ],
)
def test_without_the_rule_it_breaks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    world = without(RULES[name], monkeypatch)
    outcome = explore(world, first=True)
    world.passes.close()
    told = [trace[-1] for trace in outcome.violations.values()]
    assert [one.partition(":")[0] for one in told] == [f"=> {RULES[name].invariant}"], f"without {name!r}: {told}"


_REPLACED_UNSEEN = (
    *("wins the Lease", "looks at a", "write the intent", "sends: create", "the cloud acts", "write status"),
    *("[the leader's watch falls behind]", "[a is forced away and a namesake made"),
)


@pytest.mark.parametrize("how", ["reports the end of 00000001-61", "starts again, with a list"])
def test_a_watch_that_was_behind_reports_a_deletion_that_it_missed(how: str) -> None:
    config = called("stale")
    world = World(config, passes_of(config))
    state = _after(world, *_REPLACED_UNSEEN)
    assert not any(process.books.leftovers for process in state.processes)
    state = _after(world, *_REPLACED_UNSEEN, how)
    world.passes.close()
    assert [left.body for process in state.processes for left in process.books.leftovers if '"id":"c1"' in left.body]


def _after(world: World, *labels: str) -> State:
    """Returns the state after these steps; of each, a part of its description."""
    state = world.config.start()
    for label in labels:
        state = next(move.state for move in (*world.moves(state), *world.acts(state)) if label in move.label)
    return state
