"""The GPU cloud as typed calls; it stands alone as a Python SDK.

    from relay_client import CREATE_POD, GET_VM, CapacityExhausted, Cloud, Outcome, CloudError
    from relay_wire.pods import PodCreate

    async with Cloud("https://api.example.com", api_key) as cloud:
        try:
            pod = await cloud.call(CREATE_POD, PodCreate(image="pytorch/pytorch", gpu_model_id="h100"))
        except CapacityExhausted as full:
            print("no room; again in", full.retry_after, "seconds")
        except CloudError as error:
            print(error, "- it may exist" if error.outcome is Outcome.UNKNOWN else "- nothing was created")
        else:
            print((await cloud.call(GET_VM, id=pod.id)).status)

Every operation is a row of `relay_client.operations`; every failure a `CloudError` (`relay_client.errors`).
`verify` proves webhook deliveries.
"""

from relay_client.cloud import Cloud, ConnectionPool, Runtime
from relay_client.errors import (
    BadRequest,
    CapacityExhausted,
    CircuitOpen,
    CloudError,
    CloudUnavailable,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    Outcome,
    PaymentRequired,
    RateLimited,
    Truncated,
    Unauthorized,
    Unreadable,
)
from relay_client.operations import (
    CREATE_CLUSTER,
    CREATE_POD,
    CREATE_SSH_KEY,
    CREATE_VM,
    CREATE_WEBHOOK,
    DELETE_SSH_KEY,
    DELETE_WEBHOOK,
    GET_AUTO_RECHARGE,
    GET_BALANCE,
    GET_CLUSTER,
    GET_CLUSTER_DETAIL,
    GET_CURRENT_USAGE,
    GET_GPU_AVAILABILITY,
    GET_ME,
    GET_POD_CAPACITY,
    GET_PRICING,
    GET_VM,
    LIST_CLUSTERS,
    LIST_GPU_MODELS,
    LIST_LOCATIONS,
    LIST_SSH_KEYS,
    LIST_VM_TEMPLATES,
    LIST_VMS,
    LIST_WEBHOOK_DELIVERIES,
    LIST_WEBHOOKS,
    OPERATIONS,
    PUT_AUTO_RECHARGE,
    REGENERATE_WEBHOOK_SECRET,
    RESTART_CLUSTER,
    RESTART_VM,
    SCALE_CLUSTER,
    SET_VM_VISIBILITY,
    STOP_CLUSTER,
    STOP_VM,
    TERMINATE_CLUSTER,
    TERMINATE_VM,
    TOGGLE_WEBHOOK,
    WHOAMI,
    AnyOperation,
    Operation,
)
from relay_client.paging import Listing, list_clusters, listing, pages
from relay_client.ratelimit import RateLimiter
from relay_client.retry import CallPolicy
from relay_client.signature import InvalidPayload, InvalidSignature, verify

__all__ = [
    "CREATE_CLUSTER",
    "CREATE_POD",
    "CREATE_SSH_KEY",
    "CREATE_VM",
    "CREATE_WEBHOOK",
    "DELETE_SSH_KEY",
    "DELETE_WEBHOOK",
    "GET_AUTO_RECHARGE",
    "GET_BALANCE",
    "GET_CLUSTER",
    "GET_CLUSTER_DETAIL",
    "GET_CURRENT_USAGE",
    "GET_GPU_AVAILABILITY",
    "GET_ME",
    "GET_POD_CAPACITY",
    "GET_PRICING",
    "GET_VM",
    "LIST_CLUSTERS",
    "LIST_GPU_MODELS",
    "LIST_LOCATIONS",
    "LIST_SSH_KEYS",
    "LIST_VMS",
    "LIST_VM_TEMPLATES",
    "LIST_WEBHOOKS",
    "LIST_WEBHOOK_DELIVERIES",
    "OPERATIONS",
    "PUT_AUTO_RECHARGE",
    "REGENERATE_WEBHOOK_SECRET",
    "RESTART_CLUSTER",
    "RESTART_VM",
    "SCALE_CLUSTER",
    "SET_VM_VISIBILITY",
    "STOP_CLUSTER",
    "STOP_VM",
    "TERMINATE_CLUSTER",
    "TERMINATE_VM",
    "TOGGLE_WEBHOOK",
    "WHOAMI",
    "AnyOperation",
    "BadRequest",
    "CallPolicy",
    "CapacityExhausted",
    "CircuitOpen",
    "Cloud",
    "CloudError",
    "CloudUnavailable",
    "Conflict",
    "ConnectionPool",
    "Forbidden",
    "Gone",
    "Invalid",
    "InvalidPayload",
    "InvalidSignature",
    "Listing",
    "NotFound",
    "Operation",
    "Outcome",
    "PaymentRequired",
    "RateLimited",
    "RateLimiter",
    "Runtime",
    "Truncated",
    "Unauthorized",
    "Unreadable",
    "list_clusters",
    "listing",
    "pages",
    "verify",
]
