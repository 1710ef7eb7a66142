"""Which CRDs are absent, and what is said of them."""

import json

import pytest

from relay_kube.errors import KubeError, Unavailable
from relay_operator.engine.installed import Installed
from tests.unit.engine.apiserver import Fault
from tests.unit.flows.managed.world import World

ALL = ("gpupods", "gpuvms")


def _served(world: World, *plurals: str) -> None:
    names = [{"name": plural} for plural in plurals]
    world.server.faults.append(Fault(200, body=json.dumps({"resources": names})))


@pytest.fixture
def installed(world: World) -> Installed:
    return Installed(world.kube, ALL)


async def test_what_is_absent_is_told_until_it_is_there(
    world: World, installed: Installed, caplog: pytest.LogCaptureFixture
) -> None:
    _served(world, "gpupods", "gpupods/status")
    assert "gpupods" in await installed.ask()
    assert installed.absent == ("gpuvms",)
    assert installed.lacking() == "the API server lacks gpuvms: apply the CRDs"
    for _ in range(2):
        _served(world, *ALL)
        await installed.ask()
    assert installed.lacking() is None
    assert caplog.messages == ["the API server lacks gpuvms: apply the CRDs", "all CRDs are there"]


async def test_without_any_crd_nothing_may_count_as_absent(world: World, installed: Installed) -> None:
    _served(world, "pods")
    with pytest.raises(KubeError, match="none of them"):
        await installed.ask()


async def test_an_answer_that_says_nothing_makes_nothing_absent(world: World, installed: Installed) -> None:
    world.server.faults.append(Fault(503))
    with pytest.raises(Unavailable):
        await installed.ask()
    assert installed.absent == ()
