"""The two error bodies (section 2), and the codes that section 7 names."""

from enum import StrEnum

from relay_wire.base import Lenient, Received


class ErrorCode(StrEnum):
    """The codes of the management API that section 7 names; the list is incomplete, so any other string may occur."""

    NOT_FOUND = "not_found"
    POD_NODE_BUSY = "POD_NODE_BUSY"
    POD_NODE_OFFLINE = "POD_NODE_OFFLINE"
    POD_NODE_NO_INFINIBAND = "POD_NODE_NO_INFINIBAND"
    POD_STOPPING = "POD_STOPPING"
    COMPUTE_CLASS_RETIRED = "COMPUTE_CLASS_RETIRED"
    INSUFFICIENT_RUNWAY = "INSUFFICIENT_RUNWAY"
    LANE_INTENT_REQUIRED = "LANE_INTENT_REQUIRED"
    NODE_AT_CAPACITY = "NODE_AT_CAPACITY"
    INSUFFICIENT_GPU_CAPACITY = "INSUFFICIENT_GPU_CAPACITY"
    INSUFFICIENT_CPU_CAPACITY = "INSUFFICIENT_CPU_CAPACITY"
    INSUFFICIENT_IP_CAPACITY = "INSUFFICIENT_IP_CAPACITY"
    INSUFFICIENT_BALANCE = "INSUFFICIENT_BALANCE"  # assumed: the deploy gate without funds
    SPEND_LIMIT_REACHED = "SPEND_LIMIT_REACHED"  # assumed: the monthly limit


class ErrorBody(Received):
    """The error body of the management API."""

    error: Lenient[str] = None
    code: Lenient[str] = None


class InferenceError(Received):
    """An error of the inference API, in its own words."""

    message: Lenient[str] = None
    type: Lenient[str] = None
    code: Lenient[str] = None


class InferenceErrorBody(Received):
    """The error body of the inference API."""

    error: InferenceError
