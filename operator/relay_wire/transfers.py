"""The transfer of a workload to another organization (section 2, "Accept transfer")."""

from pydantic import Field

from relay_wire.base import Sent, SentList


class TransferAccept(Sent):
    """Accept transfer request: the receiving organization's keys to put on the workload."""

    ssh_key_ids: SentList[str] = Field(default_factory=list)
