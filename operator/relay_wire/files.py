"""Files of the inference API. Their paths and fields are assumed to be OpenAI's: section 4, "Unlisted operations"."""

from typing import Final, Literal

from relay_wire.base import Cursor, Lenient, ListOf, ResourceId, SnakeReceived, Whole

BATCH_UPLOAD_LIMIT = 200_000_000
"""The most bytes of one uploaded file (section 8: 200 MB)."""

Purpose = Literal["batch", "batch_output"]

INPUT: Final = "batch"
"""The purpose of a file that a batch reads."""

OUTPUT: Final = "batch_output"
"""The purpose of a file that a batch wrote."""


class FileObject(SnakeReceived):
    """One file: uploaded with purpose `batch`, or written by a batch with purpose `batch_output`."""

    id: ResourceId
    object: Literal["file"] = "file"
    bytes: Lenient[Whole] = None
    created_at: Lenient[Whole] = None
    """Unix seconds, like all timestamps of the inference API (section 1)."""
    expires_at: Lenient[Whole] = None
    filename: Lenient[str] = None
    purpose: Lenient[str] = None
    status: Lenient[str] = None


class FileDeleted(SnakeReceived):
    """The answer to a file's deletion."""

    id: ResourceId
    object: Literal["file"] = "file"
    deleted: bool = True


class FileList(SnakeReceived):
    """One page of files, newest first; `last_id` is the next page's `after`."""

    object: Literal["list"] = "list"
    data: ListOf[FileObject]
    has_more: bool
    first_id: Lenient[str] = None
    last_id: Cursor = None
