"""Single byte ranges (RFC 9110, section 14): which bytes of a content a request asks for."""

import re

_SINGLE = re.compile(r"bytes=\s*(\d{0,18})-(\d{0,18})\s*", re.IGNORECASE | re.ASCII)


class UnsatisfiableError(ValueError):
    """The range has no byte of the content."""


def requested(header: str | None, size: int) -> range | None:
    """The bytes that a Range header asks for; None for all of them, also where the header has another form.

    Raises UnsatisfiableError.
    """
    match = None if header is None else _SINGLE.fullmatch(header)
    if match is None or match.groups() == ("", ""):
        return None
    first, last = match.groups()
    if not first:
        chosen = range(max(size - int(last), 0), size)
    else:
        if last and int(last) < int(first):
            return None
        chosen = range(int(first), min(int(last) + 1, size) if last else size)
    if not chosen:
        raise UnsatisfiableError(f"the content has {size} bytes")
    return chosen
