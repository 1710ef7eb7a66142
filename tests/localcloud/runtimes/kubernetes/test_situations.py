"""What a holder and its Pod make of each other."""

from __future__ import annotations

from typing import Any

import pytest

from relay_localcloud.kernel.instants import parse_timestamp
from relay_localcloud.runtimes.kubernetes.holdings import Holding, Standing
from relay_localcloud.runtimes.kubernetes.names import CLOUD_ID, INSTANCE, REPLICA_ID, START
from relay_localcloud.runtimes.kubernetes.observed import Pod
from relay_localcloud.runtimes.kubernetes.situations import (
    REMADE_AFTER,
    STEPS,
    Situation,
    Step,
    is_known,
    labelled,
    situation,
)

MADE = "2026-11-24T10:00:00Z"
SECOND_START = Holding("pod_1", Standing.RUN, start=2, since=0, uid=None, exits=())


def pod(start: str = "2", owner: str = "mine", phase: str = "Running", on: str | None = None, **metadata: Any) -> Pod:
    named = {"name": "pod-1", "uid": "u", "creationTimestamp": MADE, "labels": {INSTANCE: owner}}
    whole = {"metadata": {**named, "annotations": {START: start}, **metadata}, "spec": {"nodeName": on}}
    return Pod.model_validate({**whole, "status": {"phase": phase}})


@pytest.mark.parametrize(
    ("there", "meant"),
    [
        (None, Situation.ABSENT),
        (pod(), Situation.PRESENT),
        (pod(phase="Pending"), Situation.PRESENT),
        (pod(owner="another"), Situation.FOREIGN),
        (pod(labels={}, deletionTimestamp=MADE), Situation.FOREIGN),
        (pod("1"), Situation.OUTDATED),
        (pod("1", deletionTimestamp=MADE), Situation.LEAVING),
        (pod(deletionTimestamp=MADE), Situation.LEAVING),
        (pod(phase="Failed"), Situation.OUTDATED),
        (pod("3"), Situation.LATER),
        (pod("3", phase="Failed"), Situation.LATER),
        (pod(annotations={}), Situation.OUTDATED),
        (pod("two"), Situation.OUTDATED),
        (pod("9" * 18), Situation.LATER),
        (pod("9" * 19), Situation.OUTDATED),
        (pod("9" * 5000), Situation.OUTDATED),
    ],
)
def test_what_is_there_is_told_by_instance_start_and_phase(there: Pod | None, meant: Situation) -> None:
    assert situation(SECOND_START, there, "mine", parse_timestamp(MADE) + REMADE_AFTER) is meant


@pytest.mark.parametrize(
    ("there", "meant"),
    [
        (pod(phase="Failed"), Situation.REJECTED),
        (pod("1", phase="Failed"), Situation.OUTDATED),
        (pod(), Situation.PRESENT),
    ],
)
def test_a_pod_that_its_kubelet_ended_at_once_stays_for_a_moment(there: Pod, meant: Situation) -> None:
    assert situation(SECOND_START, there, "mine", parse_timestamp(MADE) + REMADE_AFTER - 1) is meant


@pytest.mark.parametrize(
    ("there", "meant"),
    [
        (None, Situation.CLOSED),
        (pod(phase="Pending"), Situation.UNPLACED),
        (pod(phase="Pending", on="gpu-1"), Situation.PRESENT),
        (pod("1", phase="Pending"), Situation.OUTDATED),
        (pod(owner="another", phase="Pending"), Situation.FOREIGN),
        (pod("3", phase="Pending"), Situation.LATER),
    ],
)
def test_what_is_on_no_node_does_not_get_on_a_cordoned_one(there: Pod | None, meant: Situation) -> None:
    assert situation(SECOND_START, there, "mine", parse_timestamp(MADE), cordoned=True) is meant


def test_every_standing_has_a_step_for_every_situation() -> None:
    assert {standing: set(steps) for standing, steps in STEPS.items()} == {key: set(Situation) for key in Standing}


def test_nothing_ends_what_is_not_this_clouds_or_of_a_start_it_does_not_know_unless_its_holder_ended() -> None:
    kept = (Situation.FOREIGN, Situation.LATER)
    ends = [(at, it) for at, steps in STEPS.items() for it in kept if steps[it] in {Step.END, Step.MAKE}]
    assert ends == [(Standing.END, Situation.LATER)]


@pytest.mark.parametrize(
    ("there", "known"),
    [
        (pod("2", labels={INSTANCE: "mine", CLOUD_ID: "pod_1"}), True),
        (pod("1", labels={INSTANCE: "mine", CLOUD_ID: "pod_1"}), True),
        (pod("3", labels={INSTANCE: "mine", CLOUD_ID: "pod_1"}), False),
        (pod("1", labels={INSTANCE: "mine", CLOUD_ID: "pod_9"}), False),
        (pod("1", labels={INSTANCE: "another", CLOUD_ID: "pod_1"}), False),
        (pod("1", labels={INSTANCE: "mine", CLOUD_ID: "cluster_1", REPLICA_ID: "rep_1"}), True),
        (pod("1", labels={INSTANCE: "mine", CLOUD_ID: "pod_1", REPLICA_ID: "rep_9"}), False),
        (pod("1", labels={}), False),
        (pod("9" * 5000, labels={}), False),
    ],
)
def test_a_pod_is_known_if_it_is_this_clouds_and_its_holder_has_had_that_start(there: Pod, known: bool) -> None:
    assert is_known(there, "mine", {"pod_1": 2, "rep_1": 1}) is known


def test_a_pod_whose_marks_were_taken_off_by_hand_is_listed_by_those_that_are_left() -> None:
    replica = pod(name="rep-1", namespace="relay-org-a", labels={INSTANCE: "mine", REPLICA_ID: "rep_1"})
    assert [(each.id, each.workload_id) for each in labelled("eu", [replica], "mine")] == [("rep_1", "rep_1")]
