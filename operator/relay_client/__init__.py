"""The GPU cloud as typed calls; usable on its own as a Python SDK.

    from relay_client import CapacityExhausted, Cloud, CloudError, Outcome
    from relay_client.operations import CREATE_POD, GET_VM
    from relay_wire.pods import PodCreate

    async with Cloud("https://api.example.com", api_key) as cloud:
        try:
            pod = await cloud.call(CREATE_POD, PodCreate(image="pytorch/pytorch", gpu_model_id="h100"))
            print((await cloud.call(GET_VM, id=pod.id)).status)
        except CapacityExhausted as full:
            print("no room; again in", full.retry_after, "seconds")
        except CloudError as error:
            print(error, "- it may exist" if error.outcome is Outcome.UNKNOWN else "- nothing was created")

Every operation is a row of `relay_client.operations`; every failure a `CloudError` (`relay_client.errors`).
`items_of` reads a list to its last page. Files of batches are streamed by `Cloud.upload` and `Cloud.download`;
`batches` and `files` list them, page by page. `verify` checks the signature of webhook deliveries.
"""

from relay_client import errors, operations
from relay_client.cloud import Cloud, Runtime
from relay_client.downloads import Download
from relay_client.errors import (
    BadRequest,
    CapacityExhausted,
    CircuitOpen,
    CloudError,
    CloudUnavailable,
    Conflict,
    Forbidden,
    Gone,
    HeldBack,
    Invalid,
    NoInferenceUrl,
    NotFound,
    NotServed,
    Outcome,
    Oversized,
    PaymentRequired,
    RateLimited,
    TooLarge,
    Truncated,
    Unauthorized,
    Unreadable,
    Withheld,
)
from relay_client.operations import OPERATIONS, AnyOperation, Api, Operation
from relay_client.paging import Listing, batches, files, gathered, items_of, listing, pages
from relay_client.pool import ConnectionPool
from relay_client.ratelimit import RateLimiter
from relay_client.retry import CallPolicy
from relay_client.signature import InvalidPayload, InvalidSignature, verify
from relay_client.uploads import SourceStalled

__all__ = [
    "OPERATIONS",
    "AnyOperation",
    "Api",
    "BadRequest",
    "CallPolicy",
    "CapacityExhausted",
    "CircuitOpen",
    "Cloud",
    "CloudError",
    "CloudUnavailable",
    "Conflict",
    "ConnectionPool",
    "Download",
    "Forbidden",
    "Gone",
    "HeldBack",
    "Invalid",
    "InvalidPayload",
    "InvalidSignature",
    "Listing",
    "NoInferenceUrl",
    "NotFound",
    "NotServed",
    "Operation",
    "Outcome",
    "Oversized",
    "PaymentRequired",
    "RateLimited",
    "RateLimiter",
    "Runtime",
    "SourceStalled",
    "TooLarge",
    "Truncated",
    "Unauthorized",
    "Unreadable",
    "Withheld",
    "batches",
    "errors",
    "files",
    "gathered",
    "items_of",
    "listing",
    "operations",
    "pages",
    "verify",
]
