"""What Pods say, as kubelets and schedulers of 1.34 and later write it, and the facts that follow."""

from __future__ import annotations

from typing import Any

import pytest

from relay_localcloud.kernel.instants import MINUTE, SECOND, parse_timestamp, timestamp
from relay_localcloud.runtimes.kubernetes import facts
from relay_localcloud.runtimes.kubernetes.facts import (
    CannotStart,
    Deleted,
    Exited,
    Failed,
    Gone,
    Healthy,
    Pending,
    Started,
    TakenOff,
    Unhealthy,
)
from relay_localcloud.runtimes.kubernetes.observed import Event, Pod

MADE = parse_timestamp("2026-11-24T10:00:00Z")
TAKEN = MADE + 1 * SECOND
NOW = MADE + 60 * SECOND

NO_IMAGE = (
    'failed to pull and unpack image "docker.io/library/nope:1": failed to resolve reference '
    '"docker.io/library/nope:1": pull access denied, repository does not exist or may require authorization: '
    "server message: insufficient_scope: authorization failed"
)
NO_COMMAND = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: "
    'unable to start container process: error during container init: exec: "serve": executable file not found in $PATH'
)
UNSCHEDULABLE = (
    "0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) didn't match Pod's node affinity/selector. "
    "no new claims to deallocate, preemption: 0/2 nodes are available: 1 No preemption victims found for incoming "
    "pod, 1 Preemption is not helpful for scheduling."
)
NO_SANDBOX = (
    'Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox "3f2a": '
    'plugin type="bridge" failed (add): failed to allocate for range 0: no IP addresses available in range set'
)


def at(instant: int) -> str:
    """As the API server writes instants: to the second."""
    return timestamp(instant)[:19] + "Z"


def condition(kind: str, status: str, reason: str | None = None, message: str | None = None) -> dict[str, Any]:
    said = {key: value for key, value in {"reason": reason, "message": message}.items() if value is not None}
    return {"type": kind, "status": status, "lastProbeTime": None, "lastTransitionTime": at(MADE), **said}


def pod(state: Any = None, last: Any = None, *, ready: bool = False, **changed: Any) -> Pod:
    """A Pod that a kubelet took, one second after it was made."""
    container = {
        "name": "main",
        "image": "docker.io/library/app:1",
        "imageID": "",
        "ready": ready,
        "started": "running" in (state or {}),
        "restartCount": 0 if last is None else 1,
        "state": state,
        "lastState": last or {},
        "resources": {"requests": {"cpu": "1"}},
    }
    status = {
        "phase": "Pending",
        "hostIP": "192.0.2.7",
        "podIP": "10.244.0.9",
        "podIPs": [{"ip": "10.244.0.9"}],
        "qosClass": "Guaranteed",
        "startTime": at(TAKEN),
        "observedGeneration": 1,
        "conditions": [condition("PodScheduled", "True"), condition("Ready", str(ready), "ContainersNotReady")],
        "containerStatuses": [] if state is None else [container],
        **changed.pop("status", {}),
    }
    metadata = {"name": "pod-1f", "namespace": "relay-org-a", "uid": "u-1", "creationTimestamp": at(MADE), **changed}
    return Pod.model_validate({"metadata": metadata, "spec": {"nodeName": "gpu-7", "containers": []}, "status": status})


def unscheduled(reason: str, message: str) -> Pod:
    status = {
        "phase": "Pending",
        "conditions": [condition("PodScheduled", "False", reason, message)],
        "qosClass": "Guaranteed",
    }
    metadata = {"name": "pod-1f", "namespace": "relay-org-a", "uid": "u-1", "creationTimestamp": at(MADE)}
    return Pod.model_validate({"metadata": metadata, "spec": {"containers": []}, "status": status})


def waiting(reason: str, message: str | None = None) -> dict[str, Any]:
    return {"waiting": {"reason": reason} if message is None else {"reason": reason, "message": message}}


def running(since: int) -> dict[str, Any]:
    return {"running": {"startedAt": at(since)}}


def ended(code: int, reason: str, started_at: int, finished_at: int, message: str = "") -> dict[str, Any]:
    times = {"startedAt": at(started_at), "finishedAt": at(finished_at)}
    said = {"message": message} if message else {}
    return {"terminated": {"exitCode": code, "reason": reason, **said, **times, "containerID": "containerd://77d0"}}


def event(kind: str, reason: str, message: str, seen_at: int, **changed: Any) -> Event:
    source = {"source": {"component": "kubelet", "host": "gpu-7"}, "reportingComponent": "kubelet", "count": 1}
    times = {"firstTimestamp": at(seen_at), "lastTimestamp": at(seen_at), "eventTime": None}
    said = {"type": kind, "reason": reason, "message": message}
    return Event.model_validate({**source, **times, **said, **changed})


def said_of(seen: Pod | None, *events: Event, exits: Any = (), now: int = NOW) -> list[facts.Fact]:
    return facts.of_pod(seen, events, exits, now)


CRASH = ended(1, "Error", MADE + 10 * SECOND, MADE + 12 * SECOND)
CRASHED = Exited(1, "Error", "", MADE + 10 * SECOND, MADE + 12 * SECOND)
NEVER_RAN = ended(128, "StartError", 0, MADE + 12 * SECOND, NO_COMMAND)
BACK_OFF = waiting("CrashLoopBackOff", "back-off 10s restarting failed container=main pod=pod-1f_relay-org-a(u-1)")
ON_ITS_WAY_OUT: dict[str, Any] = {"deletionTimestamp": at(NOW), "deletionGracePeriodSeconds": 30}


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        pytest.param(None, [Gone()], id="there is none"),
        pytest.param(pod(), [], id="the kubelet has it"),
        pytest.param(pod(waiting("ContainerCreating")), [], id="its image is pulled"),
        pytest.param(
            pod(running(NOW), status={"phase": "Running"}),
            [Started(NOW), Unhealthy("It has not passed its health check yet.")],
            id="it runs and is not ready",
        ),
        pytest.param(pod(running(NOW), ready=True), [Started(NOW), Healthy()], id="it is ready"),
        pytest.param(
            pod(running(NOW), ready=True, status={"conditions": [condition("Ready", "False")]}),
            [Started(NOW), Unhealthy("It has not passed its health check yet.")],
            id="its kubelet has said so last, and does not report",
        ),
        pytest.param(pod(CRASH), [CRASHED], id="it exited"),
        pytest.param(pod(BACK_OFF, CRASH), [CRASHED], id="it waits to be started again"),
        pytest.param(
            pod(running(NOW), CRASH, ready=True),
            [CRASHED, Started(NOW), Healthy()],
            id="it runs again",
        ),
        pytest.param(
            pod(ended(137, "OOMKilled", MADE, NOW)), [Exited(137, "OOMKilled", "", MADE, NOW)], id="it ate its memory"
        ),
        pytest.param(
            pod({"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown", "startedAt": None}}),
            [],
            id="nobody knows when it ended",
        ),
        pytest.param(pod(waiting("ErrImagePull", NO_IMAGE)), [CannotStart(NO_IMAGE)], id="no such image"),
        pytest.param(
            pod(waiting("ImagePullBackOff", f'Back-off pulling image "nope:1": ErrImagePull: {NO_IMAGE}')),
            [CannotStart(NO_IMAGE)],
            id="no such image, in the same words while the kubelet waits",
        ),
        pytest.param(
            pod(waiting("ImagePullBackOff", 'Back-off pulling image "nope:1"')),
            [CannotStart('Back-off pulling image "nope:1"')],
            id="a kubelet that forgot why",
        ),
        pytest.param(
            pod(waiting("InvalidImageName", 'Failed to apply default image tag "NOPE": invalid reference format')),
            [CannotStart('Failed to apply default image tag "NOPE": invalid reference format')],
            id="no image's name",
        ),
        pytest.param(
            pod(waiting("CreateContainerConfigError", 'secret "pod-1f" not found')),
            [CannotStart('secret "pod-1f" not found')],
            id="its secret is missing",
        ),
        pytest.param(
            pod(waiting("CreateContainerError", "failed to generate spec: no command specified")),
            [CannotStart("failed to generate spec: no command specified")],
            id="it needs a command",
        ),
        pytest.param(pod(waiting("RunContainerError", NO_COMMAND)), [CannotStart(NO_COMMAND)], id="no such command"),
        pytest.param(pod(BACK_OFF, NEVER_RAN), [CannotStart(NO_COMMAND)], id="no such command, before the next try"),
        pytest.param(pod(NEVER_RAN), [CannotStart(NO_COMMAND)], id="no such command, at once"),
        pytest.param(pod(waiting("ErrToCome")), [CannotStart("ErrToCome")], id="a reason nobody knows yet"),
        pytest.param(pod(CRASH, NEVER_RAN), [CRASHED], id="a start that failed is over once another ran"),
        pytest.param(unscheduled("Unschedulable", UNSCHEDULABLE), [Pending(UNSCHEDULABLE)], id="a stranger has it"),
        pytest.param(unscheduled("SchedulingGated", ""), [Pending("SchedulingGated")], id="a gate of a stranger's"),
        pytest.param(pod(running(MADE), **ON_ITS_WAY_OUT), [Deleted("Its Pod was deleted.")], id="somebody deleted it"),
        pytest.param(
            pod(CRASH, **ON_ITS_WAY_OUT), [CRASHED, Deleted("Its Pod was deleted.")], id="it ended while it was deleted"
        ),
        pytest.param(
            pod(
                running(MADE),
                **ON_ITS_WAY_OUT,
                status={
                    "conditions": [
                        condition("DisruptionTarget", "True", "EvictionByEvictionAPI", "Eviction API: evicting")
                    ]
                },
            ),
            [Deleted("Eviction API: evicting")],
            id="its node is drained",
        ),
        pytest.param(
            pod(
                CRASH,
                status={
                    "phase": "Failed",
                    "reason": "Evicted",
                    "message": "Pod ephemeral local storage usage exceeds the total limit of containers 20Gi. ",
                },
            ),
            [
                CRASHED,
                Failed(
                    "Evicted: Pod ephemeral local storage usage exceeds the total limit of containers 20Gi.",
                    CRASHED.finished_at,
                ),
            ],
            id="it wrote until its disk was full",
        ),
        *(
            pytest.param(
                pod(CRASH, status={"phase": "Failed", "reason": "Evicted", "message": message}),
                [CRASHED, Failed(f"Evicted: {message.strip()}", CRASHED.finished_at)],
                id=message[:20],
            )
            for message in (
                'Container workload exceeded its local ephemeral storage limit "20Gi". ',
                'Usage of EmptyDir volume "shm" exceeds the limit "2Gi". ',
            )
        ),
        *(
            pytest.param(
                pod(status={"phase": "Failed", "reason": "Evicted", "message": message}),
                [TakenOff(f"Evicted: {message.strip()}")],
                id=message[:30],
            )
            for message in (
                (
                    "The node was low on resource: ephemeral-storage. Threshold quantity: 10Gi, available: 9Gi. "
                    "Container main was using 2Gi, request is 1Gi, has larger consumption of ephemeral-storage. "
                ),
                "Pod was rejected: The node had condition: [DiskPressure]. ",
            )
        ),
        pytest.param(
            pod(
                status={
                    "phase": "Failed",
                    "reason": "UnexpectedAdmissionError",
                    "message": "Pod was rejected: Allocate failed due to requested number of devices unavailable for "
                    "nvidia.com/gpu. Requested: 1, Available: 0, which is unexpected",
                }
            ),
            [
                TakenOff(
                    "UnexpectedAdmissionError: Pod was rejected: Allocate failed due to requested number of devices "
                    "unavailable for nvidia.com/gpu. Requested: 1, Available: 0, which is unexpected"
                )
            ],
            id="its node came back before its GPUs",
        ),
        pytest.param(
            pod(
                status={
                    "phase": "Failed",
                    "reason": "Terminated",
                    "message": "Pod was terminated in response to imminent node shutdown.",
                }
            ),
            [TakenOff("Terminated: Pod was terminated in response to imminent node shutdown.")],
            id="its node shut down",
        ),
    ],
)
def test_what_a_pod_says(seen: Pod | None, said: list[facts.Fact]) -> None:
    assert said_of(seen) == said


CREATING = pod(waiting("ContainerCreating"))
NO_NETWORK = event("Warning", "FailedCreatePodSandBox", NO_SANDBOX, TAKEN)


@pytest.mark.parametrize(
    ("seen", "events", "said"),
    [
        pytest.param(CREATING, [NO_NETWORK], [CannotStart(NO_SANDBOX)], id="no sandbox"),
        pytest.param(pod(), [NO_NETWORK], [CannotStart(NO_SANDBOX)], id="no sandbox, and no word of the container"),
        pytest.param(
            CREATING,
            [NO_NETWORK, event("Normal", "Pulling", 'Pulling image "app:1"', TAKEN + SECOND)],
            [],
            id="what it warned of is overcome",
        ),
        pytest.param(
            CREATING,
            [event("Warning", "FailedScheduling", UNSCHEDULABLE, TAKEN)],
            [],
            id="the scheduler's warnings are over once it is scheduled",
        ),
        pytest.param(
            CREATING,
            [
                event("Normal", "Scheduled", "Successfully assigned relay-org-a/pod-1f to gpu-7", TAKEN),
                event(
                    "Warning",
                    "FailedMount",
                    'MountVolume.SetUp failed for volume "ssh" : secret "pod-1f" not found',
                    0,
                    firstTimestamp=None,
                    lastTimestamp=None,
                    eventTime="2026-11-24T10:00:01.123456Z",
                    series={"count": 2, "lastObservedTime": "2026-11-24T10:00:03.654321Z"},
                ),
            ],
            [CannotStart('MountVolume.SetUp failed for volume "ssh" : secret "pod-1f" not found')],
            id="an event of a series",
        ),
        pytest.param(
            pod(running(MADE)),
            [
                event("Warning", "Unhealthy", "Readiness probe failed: connection refused", TAKEN),
                event("Warning", "Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 500", NOW),
            ],
            [
                Started(MADE),
                Unhealthy("Readiness probe failed: HTTP probe failed with statuscode: 500"),
            ],
            id="its health check fails",
        ),
    ],
)
def test_what_its_events_add(seen: Pod, events: list[Event], said: list[facts.Fact]) -> None:
    assert said_of(seen, *events) == said


NO_SUCH_IMAGE = pod(waiting("ErrImagePull", NO_IMAGE))


@pytest.mark.parametrize(
    ("seen", "now", "said"),
    [
        (NO_SUCH_IMAGE, TAKEN + facts.START_WITHIN - SECOND, [CannotStart(NO_IMAGE)]),
        (NO_SUCH_IMAGE, TAKEN + facts.START_WITHIN, [Failed(NO_IMAGE, MADE)]),
        (CREATING, TAKEN + facts.PREPARED_WITHIN - SECOND, []),
        (CREATING, TAKEN + facts.PREPARED_WITHIN, [Failed(facts.NEVER_PREPARED, MADE)]),
        (
            pod(waiting("ErrImagePull", NO_IMAGE), ended(0, "Completed", MADE, MADE + 9 * MINUTE)),
            MADE + 14 * MINUTE - SECOND,
            [Exited(0, "Completed", "", MADE, MADE + 9 * MINUTE), CannotStart(NO_IMAGE)],
        ),
        (
            pod(waiting("ErrImagePull", NO_IMAGE), ended(0, "Completed", MADE, MADE + 9 * MINUTE)),
            MADE + 14 * MINUTE,
            [Exited(0, "Completed", "", MADE, MADE + 9 * MINUTE), Failed(NO_IMAGE, MADE + 9 * MINUTE)],
        ),
        (
            unscheduled("Unschedulable", UNSCHEDULABLE),
            MADE + facts.SCHEDULED_WITHIN - SECOND,
            [Pending(UNSCHEDULABLE)],
        ),
        (unscheduled("Unschedulable", UNSCHEDULABLE), MADE + facts.SCHEDULED_WITHIN, [Failed(UNSCHEDULABLE, MADE)]),
    ],
)
def test_what_cannot_start_is_given_up_in_time_and_a_long_pull_much_later(
    seen: Pod, now: int, said: list[facts.Fact]
) -> None:
    assert said_of(seen, now=now) == said


def exits(*, apart: int = 60 * SECOND, ran: int = 2 * SECOND, count: int = facts.EXITS) -> list[Exited]:
    """Ends, of which the last is that of `CRASH`."""
    last = CRASHED.finished_at
    ends = [last - number * apart for number in reversed(range(1, count))]
    return [Exited(1, "Error", "", end - ran, end) for end in ends] + [CRASHED]


GIVEN_UP = Failed(
    "It exited 5 times within ten minutes, after less than a minute each; exit code 1 (Error).", CRASHED.finished_at
)


@pytest.mark.parametrize(
    ("earlier", "said"),
    [
        (exits(), [CRASHED, GIVEN_UP]),
        (exits(count=4), [CRASHED]),
        (exits(apart=facts.EXITS_WITHIN // 4), [CRASHED, GIVEN_UP]),
        (exits(apart=facts.EXITS_WITHIN // 4 + SECOND), [CRASHED]),
        (exits(ran=facts.RAN - SECOND), [CRASHED, GIVEN_UP]),
        (exits(ran=facts.RAN), [CRASHED]),
        (exits(count=9), [CRASHED, GIVEN_UP]),
    ],
)
def test_five_short_runs_within_ten_minutes_are_enough(earlier: list[Exited], said: list[facts.Fact]) -> None:
    assert said_of(pod(BACK_OFF, CRASH), exits=earlier) == said


def test_who_runs_again_is_not_given_up() -> None:
    assert GIVEN_UP not in said_of(pod(running(NOW), CRASH), exits=exits())


def test_an_exit_is_counted_once_however_often_the_pod_tells_of_it() -> None:
    seen = facts.last_exits(pod(CRASH), [])
    assert facts.last_exits(pod(BACK_OFF, CRASH), seen) == seen == [CRASHED]
    assert facts.last_exits(pod(BACK_OFF, CRASH), exits(count=9)) == exits()


def test_what_an_administrator_puts_beside_the_container_says_nothing_of_it() -> None:
    beside = {"name": "istio-proxy", "ready": True, "state": running(NOW), "lastState": {}}
    assert said_of(pod(status={"containerStatuses": [beside]})) == []


def test_words_are_kept_short() -> None:
    assert said_of(pod(waiting("ErrImagePull", "x" * 5000))) == [CannotStart("x" * facts.MOST_WORDS)]
