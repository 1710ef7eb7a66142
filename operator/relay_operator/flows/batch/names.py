"""The names of files and batches in the cloud, by which they are found again whatever was lost. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from relay_operator.api import meta
from relay_operator.api.inferencebatch import MAX_PARTS, InferenceBatchStatus, PartStatus
from relay_operator.api.meta import CreateIntent, ObjectKey
from relay_wire.batches import Batch

TAG: Final = f"{meta.ANNOTATION_PREFIX}part"
"""The key of a batch's tag in its metadata."""
OBJECT: Final = f"{meta.ANNOTATION_PREFIX}object"
"""The key of `namespace/name`, for people who look at the cloud's list, and so that no other object takes the batch."""
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,3}")


@dataclass(frozen=True, slots=True)
class PartTag:
    """Which part of which object a batch is; its text is the value in the batch's metadata."""

    token: str
    round: int
    part: int
    parts: int
    """The number of parts in the round."""
    attempt: int

    def __str__(self) -> str:
        return f"{self.token}/{self.round}/{self.part}/{self.parts}/{self.attempt}"

    @classmethod
    def of(cls, batch: Batch, token: str) -> Self | None:
        """The tag of a batch created with this token; None for any other batch."""
        tag = cls.read((batch.metadata or {}).get(TAG) or "")
        return tag if tag is not None and tag.token == token else None

    @classmethod
    def read(cls, text: str) -> Self | None:
        """Parse the text of a tag; None if it is malformed."""
        token, *words = text.split("/", 5)
        numbers = [int(word) for word in words if _NUMBER.fullmatch(word)]
        if len(words) != 4 or len(numbers) != 4:
            return None
        tag = cls(token, *numbers)
        return tag if tag.part <= tag.parts <= MAX_PARTS and tag.round <= MAX_PARTS else None


def tag_of(token: str, status: InferenceBatchStatus, part: PartStatus) -> PartTag:
    """The tag that the part's batch is created with."""
    parts = sum(each.round == part.round for each in status.parts or ())
    return PartTag(token, part.round, part.part, parts, status.attempt or 1)


def create_of(intent: CreateIntent, part: PartStatus) -> str:
    """What distinguishes the create of a part from those of all others of its object."""
    return f"{intent.token}/{part.round}/{part.part}"


def metadata_of(given: Mapping[str, str] | None, key: ObjectKey, tag: PartTag) -> dict[str, str]:
    """The metadata of one batch: at most 16 entries, of which people can give 14."""
    return {**(given or {}), OBJECT: object_of(key), TAG: str(tag)}


def object_of(key: ObjectKey | meta.ObjectMeta) -> str:
    """The object as the metadata of its batches names it."""
    return f"{key.namespace}/{key.name}"


def file_prefix(intent: CreateIntent) -> str:
    """The common prefix of all files of an object."""
    return f"{intent.name}.{intent.token}."


def file_name(intent: CreateIntent, number: int, part: int) -> str:
    """The name of the file of one part in one round."""
    return f"{file_prefix(intent)}{number}.{part}.jsonl"
