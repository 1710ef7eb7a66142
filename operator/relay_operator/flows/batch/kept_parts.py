"""Parts that stay as they are while others of their round are uploaded again: they may be paid for."""

from relay_client import Cloud
from relay_operator.api.conditions import Reason
from relay_operator.api.inferencebatch import InferenceBatch, PartStatus
from relay_operator.flows.batch.files import digest_of
from relay_operator.flows.batch.result import StoppedError, WorkTroubled
from relay_operator.records.split import PartMade


def uploaded(obj: InferenceBatch) -> dict[int, PartStatus]:
    """The round's parts that are uploaded already, by their number."""
    number = obj.status.round or 1
    return {part.part: part for part in obj.status.parts or () if part.round == number and part.input_file_id}


async def is_as_sent(part: PartStatus, made: PartMade, cloud: Cloud) -> bool:
    """Whether the part has exactly the records that its number stands for now; False if nobody can tell any more.

    If its status was rebuilt, only its file in the cloud shows that. Raises CloudError.
    """
    if part.digest is not None:
        return part.digest == made.sha256
    return await digest_of(cloud, part.input_file_id or "") == made.sha256


def changed(number: int) -> StoppedError:
    """Stops the upload: with other records in this part, some would be sent twice and others never."""
    text = (
        f"part {number} was sent with other records: the input, the Secret of toolConfig or RELAY_BATCH_PART_BYTES has "
        "changed since. Put back what it was, and the batch continues; or delete the batch, and it ends as its "
        "deletionPolicy says"
    )
    return StoppedError(WorkTroubled(Reason.INPUT_CHANGED, text, stalled=True))
