"""Pods, their Events and Nodes as the API server has them, as far as the runtime reads them."""

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from relay_localcloud.kernel.instants import parse_timestamp

Instant = Annotated[int, BeforeValidator(parse_timestamp)]
"""Microseconds since 1970."""


class Observed(BaseModel):
    """What is read of an object; the rest of it is nobody's business here."""

    model_config = ConfigDict(alias_generator=to_camel, frozen=True, extra="ignore")


class Metadata(Observed):
    """What every object has."""

    name: str
    uid: str
    namespace: str = ""
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    creation_timestamp: Instant
    deletion_timestamp: Instant | None = None


class Condition(Observed):
    """One of a Pod's or of a Node's; `status` is True, False or Unknown."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


class Waiting(Observed):
    """Why a container does not run yet, or not again."""

    reason: str = ""
    message: str = ""


class Running(Observed):
    """Since when a container runs."""

    started_at: Instant | None = None


class Terminated(Observed):
    """How a container ended; one that never ran started in 1970."""

    exit_code: int
    reason: str = ""
    message: str = ""
    started_at: Instant | None = None
    finished_at: Instant | None = None


class State(Observed):
    """At most one of the three."""

    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(Observed):
    """What the kubelet says of a container, and how it ended last."""

    name: str
    ready: bool = False
    state: State = State()
    last_state: State = State()


class PodStatus(Observed):
    """What scheduler, kubelet and controllers say of a Pod."""

    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    pod_ip: str | None = Field(default=None, alias="podIP")
    start_time: Instant | None = None
    conditions: Sequence[Condition] = ()
    container_statuses: Sequence[ContainerStatus] = ()


class Resources(Observed):
    """What a container asks for; the API server fills requests in from limits."""

    requests: Mapping[str, str] = {}


class Container(Observed):
    """What the scheduler counts of a container; an init container that restarts always runs beside the others."""

    resources: Resources = Resources()
    restart_policy: str | None = None


class PodSpec(Observed):
    """What the scheduler counts of a Pod."""

    node_name: str | None = None
    containers: Sequence[Container] = ()
    init_containers: Sequence[Container] = ()
    overhead: Mapping[str, str] = {}


class Pod(Observed):
    """A Pod."""

    metadata: Metadata
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class Series(Observed):
    """When an event was seen last, if it is one of a series."""

    last_observed_time: Instant | None = None


class Event(Observed):
    """An event of a Pod; which of its times are there depends on who wrote it."""

    type: str = "Normal"
    reason: str = ""
    message: str = ""
    series: Series | None = None
    last_timestamp: Instant | None = None
    event_time: Instant | None = None
    first_timestamp: Instant | None = None

    @property
    def at(self) -> int:
        """When it was seen last."""
        in_series = None if self.series is None else self.series.last_observed_time
        return in_series or self.last_timestamp or self.event_time or self.first_timestamp or 0


class NodeSpec(Observed):
    """What an administrator says of a node."""

    unschedulable: bool = False


class NodeStatus(Observed):
    """What the kubelet says of its node."""

    allocatable: Mapping[str, str] = {}
    conditions: Sequence[Condition] = ()


class Node(Observed):
    """A Node."""

    metadata: Metadata
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


def is_ready(pod: Pod, container: str) -> bool:
    """Whether a container passes its health check, on a node that reports, in a Pod that takes requests."""
    whole = condition(pod.status.conditions, "Ready")
    said = any(each.name == container and each.ready for each in pod.status.container_statuses)
    return said and (whole is None or whole.status == "True")


def condition(conditions: Sequence[Condition], kind: str) -> Condition | None:
    """The condition of a type, if there is one."""
    return next((each for each in conditions if each.type == kind), None)
