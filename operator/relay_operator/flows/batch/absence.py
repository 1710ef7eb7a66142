"""Tells a batch or file that the cloud does not have from an organization without access to batches."""

from typing import TypeVar

from relay_client import Cloud, NotFound
from relay_client.operations import LIST_BATCHES, Operation

ResultT = TypeVar("ResultT")


async def unless_absent(
    cloud: Cloud, operation: Operation[None, ResultT], cloud_id: str, *, large: bool = False
) -> ResultT | None:
    """The result of an operation on one batch or file; None if the cloud does not have it. Raises CloudError."""
    try:
        return await cloud.call(operation, id=cloud_id, large=large)
    except NotFound:
        await must_have_access(cloud)
        return None


async def must_have_access(cloud: Cloud) -> None:
    """Raises CloudError unless the organization has access to batches, so that a 404 for one means that it is absent.

    Without access the cloud answers 404 to everything (section 7, "Batch and file endpoints"), the list included.
    """
    await cloud.call(LIST_BATCHES, query={"limit": 1}, large=True)
