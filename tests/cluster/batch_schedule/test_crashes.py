"""The operator dies, or loses an answer, between a batch's create and the status that tells of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from tests.cluster.batch_schedule.runs import KIND, LONG_AGO, NAME, Runs, active
from tests.conftest import OPERATOR_NAMESPACE
from tests.support.faultproxy import FaultProxy
from tests.support.faultrules import Deed, Hold, LoseReply, Moment, Rule, Side
from tests.support.forked import OPERATOR
from tests.support.operator import Operator

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.workspace import Workspace

CREATE, DELETE = "POST inferencebatches", "DELETE inferencebatches"


@pytest.fixture
def runs(unattended_workspace: Workspace) -> Runs:
    """No operator runs until the test starts one."""
    return Runs(unattended_workspace)


@pytest_asyncio.fixture
async def proxy(operator_kubeconfig: Path, runs: Runs, tmp_path: Path) -> AsyncIterator[FaultProxy]:
    """Between the operator and the API server."""
    between = FaultProxy(tmp_path / "proxy", operator_kubeconfig, runs.workspace.cloud.management_url)
    await between.start()
    yield between
    await between.stop()


@pytest_asyncio.fixture
async def operator(proxy: FaultProxy, runs: Runs, tmp_path: Path) -> AsyncIterator[Operator]:
    """Runs, for this namespace alone, and sees the API server through the proxy."""
    chosen = {"watch_namespaces": runs.workspace.namespace, "leader_election": "false"}
    urls = runs.workspace.cloud.ports.urls()
    own = Operator(tmp_path / "operator", proxy.kubeconfig, OPERATOR_NAMESPACE, urls, chosen, program=OPERATOR)
    await own.start()
    yield own
    await own.kill()


@pytest.mark.parametrize(
    ("policy", "when"), [("Allow", Moment.ACTED), ("Forbid", Moment.DELIVERED), ("Replace", Moment.DELIVERED)]
)
async def test_killed_between_create_and_status_it_finds_its_batch_again(
    runs: Runs, proxy: FaultProxy, operator: Operator, policy: str, when: Moment
) -> None:
    await runs.create(concurrencyPolicy=policy)
    proxy.arm(Rule(Side.KUBE, CREATE, Hold(when, Deed.KILL_OPERATOR)))
    await runs.forget()
    held = await proxy.held.get()
    await operator.kill()
    held.release()
    (made,) = await runs.batches()
    assert (await runs.kube.get(KIND, NAME))["status"]["lastScheduleTime"] == LONG_AGO
    await operator.start()
    schedule = await runs.started(0)
    (kept,) = await runs.batches()
    assert kept["metadata"]["uid"] == made["metadata"]["uid"]
    assert active(schedule) == [runs.batch(0)]
    assert [one.call.subject for one in proxy.log if one.call.operation == CREATE] == [runs.batch(0)]


async def test_an_answer_that_is_lost_does_not_make_a_second_batch(
    runs: Runs, proxy: FaultProxy, operator: Operator
) -> None:
    assert operator.process.running
    await runs.create()
    proxy.arm(Rule(Side.KUBE, CREATE, LoseReply()))
    await runs.forget()
    schedule = await runs.started(0)
    assert active(schedule) == [runs.batch(0)]
    assert await runs.names() == [runs.batch(0)]


async def test_what_was_missed_while_no_operator_ran_is_started_once(
    runs: Runs, proxy: FaultProxy, operator: Operator
) -> None:
    await runs.create()
    await runs.run(0)
    await operator.stop()
    await runs.come_due(4)
    await runs.come_due(7)
    await operator.start()
    await runs.started(7)
    await runs.left(0, 7)
    assert [one.call.subject for one in proxy.log if one.call.operation == DELETE] == []
