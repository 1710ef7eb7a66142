"""`kubectl relay logs`: the output of a pod or VM, if the cloud serves logs."""

from typing import Annotated, Final

import typer

from relay_cli import accounts, objects
from relay_cli.accounts import BaseUrl
from relay_cli.failures import Failure, Status
from relay_cli.kubectl import Kubectl
from relay_cli.objects import MACHINES, CloudObject, Reference
from relay_cli.terminal import complain, say
from relay_client import CloudError, NotFound, NotServed, Oversized, Unreadable
from relay_client.operations import GET_VM_LOGS

MOST_LINES: Final = 10_000

Tail = Annotated[int, typer.Option("--tail", min=0, max=MOST_LINES, metavar="N", help="Print the last N lines.")]


async def logs(kubectl: Kubectl, reference: Reference, tail: Tail = 1000, base_url: BaseUrl = "") -> None:
    """Print the log of a pod or VM, if the cloud serves logs."""
    obj = await objects.one(kubectl, reference)
    cloud_id = logged_id(obj)
    async with accounts.cloud_of(kubectl, await accounts.of(kubectl, obj), base_url) as cloud:
        try:
            text = await cloud.call(GET_VM_LOGS, id=cloud_id, query={"tail": tail})
        except (NotFound, NotServed, Unreadable) as error:
            raise untold(obj, tail, error) from None
    if tail and not text:
        complain(f"the log of {obj.key} is empty")
    say(text)


def logged_id(obj: CloudObject) -> str:
    """The cloud id for its log. Raises Failure if the object has no log. Pure."""
    if obj.kind not in MACHINES:
        raise Failure(f"{obj.key} has no log; these kinds do: {', '.join(MACHINES)}", Status.MISUSED)
    if obj.status.id is None:
        raise Failure(f"{obj.key} has nothing in the cloud yet")
    return obj.status.id


def untold(obj: CloudObject, tail: int, error: CloudError) -> Failure:
    """The failure to report if there is no log to print. Pure."""
    if isinstance(error, Oversized):
        return Failure(f"the last {tail} lines of {obj.key} are too long for one answer: ask for fewer with --tail")
    return Failure(f"the cloud shows no log of {obj.key}: not every cloud serves logs ({error})")
