"""What runs by a later start than an older state knows of, which was restored, runs on: it is seen and billed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from relay_localcloud.kernel.instants import HOUR, timestamp
from relay_localcloud.runtimes.kubernetes.names import name_of
from relay_localcloud.runtimes.kubernetes.situations import Step
from relay_localcloud.workloads.transitions import Trigger
from relay_wire.pods import PodStatus

if TYPE_CHECKING:
    from tests.localcloud.runtimes.kubernetes.rows import Rows


@pytest.fixture(params=[PodStatus.STOPPING, PodStatus.STOPPED, PodStatus.FAILED])
def pod_id(request: pytest.FixtureRequest, room: Rows) -> str:
    """A pod with all GPUs of the node, that ran, and in the restored state does not."""
    pod_id = room.pod(gpuCount=8)
    room.runs(pod_id)
    room.move(pod_id, Trigger.FAILED if request.param is PodStatus.FAILED else Trigger.STOP)
    room.pods.clear()
    if request.param is not PodStatus.STOPPING:
        room.turn(pod_id)
    assert room.workload(pod_id).status is request.param
    room.now += HOUR
    return pod_id


def test_a_pod_that_was_started_since_runs_on_and_is_billed_from_now_on(room: Rows, pod_id: str) -> None:
    former = room.billed(pod_id)
    room.runs(pod_id, start=3)
    found = room.workload(pod_id)
    words = "It was started after the backup from which the cloud was restored, and runs on."
    assert (found.status, found.status_reason) == (PodStatus.DEPLOYING, words)
    assert room.turn(pod_id).step is Step.NOTHING
    assert room.workload(pod_id).status is PodStatus.RUNNING
    assert room.billed(pod_id) == [*former, (room.now, None)]
    assert room.free() == 0
    room.move(pod_id, Trigger.STOP)
    assert room.turn(pod_id).step is Step.END
    room.pods.clear()
    room.turn(pod_id)
    assert (room.workload(pod_id).status, room.free()) == (PodStatus.STOPPED, 8)


def test_a_pod_that_is_on_its_way_out_is_not_wanted_again(room: Rows, pod_id: str) -> None:
    former = room.workload(pod_id)
    room.runs(pod_id, start=3, deletionTimestamp=timestamp(room.now))
    assert room.workload(pod_id) == former
    room.pods.clear()
    room.turn(pod_id)
    assert room.workload(pod_id).status in {PodStatus.STOPPED, PodStatus.FAILED}


@pytest.mark.parametrize("pod_id", [PodStatus.STOPPED, PodStatus.FAILED], indirect=True)
def test_a_pod_whose_gpus_have_another_holder_waits_for_them(room: Rows, pod_id: str) -> None:
    former, other = room.workload(pod_id), room.pod()
    room.runs(pod_id, start=2)
    assert room.workload(pod_id) == former
    room.move(other, Trigger.TERMINATE)
    room.turn(pod_id)
    assert room.workload(pod_id).status is PodStatus.DEPLOYING
    assert name_of(pod_id) in room.pods
