"""Pods, their Events and Nodes as the API server returns them, reduced to what the runtime reads."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from relay_localcloud.kernel.instants import parse_timestamp

Instant = Annotated[int, BeforeValidator(parse_timestamp)]
"""Microseconds since 1970."""
OVER: Final = frozenset({"Succeeded", "Failed"})
"""Phases of a Pod that has ended, and of an instance of a VM."""


class Observed(BaseModel):
    """What the runtime reads of an object; other fields are ignored."""

    model_config = ConfigDict(alias_generator=to_camel, frozen=True, extra="ignore")


class Metadata(Observed):
    """The metadata of an object."""

    name: str
    uid: str
    resource_version: str = ""
    namespace: str = ""
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    creation_timestamp: Instant
    deletion_timestamp: Instant | None = None


class Condition(Observed):
    """A condition of a Pod or Node; `status` is True, False or Unknown."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: Instant | None = None


class Waiting(Observed):
    """Why a container does not run yet, or not again."""

    reason: str = ""
    message: str = ""


class Running(Observed):
    """When a running container started."""

    started_at: Instant | None = None


class Terminated(Observed):
    """How a container ended; `startedAt` is 1970 if it never ran."""

    exit_code: int
    reason: str = ""
    message: str = ""
    started_at: Instant | None = None
    finished_at: Instant | None = None


class State(Observed):
    """The state of a container: at most one of the three is set."""

    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(Observed):
    """What the kubelet reports about a container; `last_state` says how it ended before."""

    name: str
    ready: bool = False
    state: State = State()
    last_state: State = State()


class PodStatus(Observed):
    """What the scheduler, the kubelet and controllers report about a Pod."""

    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    pod_ip: str | None = Field(default=None, alias="podIP")
    start_time: Instant | None = None
    conditions: Sequence[Condition] = ()
    container_statuses: Sequence[ContainerStatus] = ()


class Resources(Observed):
    """A container's requests; the API server defaults them from its limits."""

    requests: Mapping[str, str] = {}


class Container(Observed):
    """What the scheduler counts of a container; an init container with `Always` runs beside the main containers."""

    resources: Resources = Resources()
    restart_policy: str | None = None


class Toleration(Observed):
    """The key of a taint that a Pod tolerates."""

    key: str = ""


class PodSpec(Observed):
    """What the scheduler counts of a Pod."""

    node_name: str | None = None
    tolerations: Sequence[Toleration] = ()
    containers: Sequence[Container] = ()
    init_containers: Sequence[Container] = ()
    overhead: Mapping[str, str] = {}


class Pod(Observed):
    """A Pod."""

    metadata: Metadata
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class Series(Observed):
    """When an event of a series was last seen."""

    last_observed_time: Instant | None = None


class Event(Observed):
    """An event of a Pod; which of its times are set depends on its writer."""

    type: str = "Normal"
    reason: str = ""
    message: str = ""
    series: Series | None = None
    last_timestamp: Instant | None = None
    event_time: Instant | None = None
    first_timestamp: Instant | None = None

    @property
    def at(self) -> int:
        """When the event was last seen; 0 if it has no time."""
        in_series = None if self.series is None else self.series.last_observed_time
        return in_series or self.last_timestamp or self.event_time or self.first_timestamp or 0


class Taint(Observed):
    """What keeps Pods that do not tolerate it off a Node, unless its effect is `PreferNoSchedule`."""

    key: str
    effect: str


class NodeSpec(Observed):
    """What an administrator sets on a Node, with the taints of controllers."""

    unschedulable: bool = False
    taints: Sequence[Taint] = ()


class NodeStatus(Observed):
    """What the kubelet reports about its Node."""

    allocatable: Mapping[str, str] = {}
    conditions: Sequence[Condition] = ()


class Node(Observed):
    """A Node."""

    metadata: Metadata
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


def is_ready(pod: Pod, container: str) -> bool:
    """Whether a container is ready in a Pod that is ready; a Pod without that condition counts as ready."""
    whole = condition(pod.status.conditions, "Ready")
    said = any(each.name == container and each.ready for each in pod.status.container_statuses)
    return said and (whole is None or whole.status == "True")


def condition(conditions: Sequence[Condition], kind: str) -> Condition | None:
    """The condition of a type; None if there is none."""
    return next((each for each in conditions if each.type == kind), None)
