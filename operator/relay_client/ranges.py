"""Which bytes of a file an answer holds. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from relay_client import errors
from relay_client.operations import DOWNLOAD_FILE
from relay_client.redaction import presentable

NO_SUCH_RANGE = 416
"""The status for a range beyond the end of the file."""

_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)")
_END = re.compile(r"bytes \*/(\d{1,18})")
_LENGTH = re.compile(r"\d{1,18}")


@dataclass(frozen=True, slots=True)
class Part:
    """The part of a file in an answer's body; all three are offsets in the file, None if not reported.

    `end` is one past the last byte; without it, the part ends with the transfer coding, at the end of the file.
    """

    start: int
    end: int | None
    total: int | None
    etag: str | None = None


def asked_for(position: int, etag: str | None) -> dict[str, str]:
    """The headers that request everything from a position on, of the same version of the file."""
    if position == 0:
        return {}
    same = {"If-Range": etag} if etag is not None and etag.isascii() and etag.startswith('"') else {}
    return {"Range": f"bytes={position}-", **same}


def part_of(status: int, headers: Mapping[str, str], position: int) -> Part:
    """The part in an answer to the request for everything from `position` on. Raises BadRequest, Unreadable."""
    if status == NO_SUCH_RANGE:
        told = _END.fullmatch(headers.get("content-range", ""))
        total = int(told[1]) if told else None
        if total != position:
            raise ends_before(position, total)
        return Part(position, position, position)
    if "html" in headers.get("content-type", "").lower():
        raise _unreadable(status, "the body is HTML")
    coding = headers.get("content-encoding", "identity")
    if coding.lower() != "identity":
        raise _unreadable(status, f"the body is encoded as {coding}, which was not asked for")
    match status:
        case 200:
            return _whole(headers)
        case 206:
            return _range(headers, position)
        case _:
            raise _unreadable(status, "a file does not come with this status")


def ends_before(position: int, total: int | None) -> errors.BadRequest:
    """The error for a position beyond the end of the file."""
    where = "" if total is None else f": it ends at {total}"
    return errors.BadRequest(DOWNLOAD_FILE.name, f"the file has no byte {position}{where}", status=NO_SUCH_RANGE)


def _whole(headers: Mapping[str, str]) -> Part:
    length = headers.get("content-length", "")
    etag = headers.get("etag")
    if _LENGTH.fullmatch(length):
        return Part(0, int(length), int(length), etag)
    if headers.get("transfer-encoding", "").lower() != "chunked":
        raise _unreadable(200, "it does not say where the file ends")
    return Part(0, None, None, etag)


def _range(headers: Mapping[str, str], position: int) -> Part:
    told = _RANGE.fullmatch(headers.get("content-range", ""))
    if told is None or int(told[1]) != position or int(told[2]) < position:
        raise _unreadable(206, f"not the bytes from {position} on, which were asked for")
    return Part(position, int(told[2]) + 1, None if told[3] == "*" else int(told[3]), headers.get("etag"))


def _unreadable(status: int, reason: str) -> errors.Unreadable:
    return errors.Unreadable(DOWNLOAD_FILE.name, presentable(f"cannot read the answer: {reason}"), status=status)
