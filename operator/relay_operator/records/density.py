"""Tells by a few counts which lines take so long and so much memory to decode that all others would wait. Pure."""

MOST_NESTED = 100_000
"""The most lists, objects and members of objects: each takes up to half a microsecond and 200 bytes."""
MOST_TEXTS = 200_000
"""The most texts, names of members included: each takes 0.1 microseconds and 80 bytes."""
MOST_VALUES = 1_500_000
"""The most commas between values: a number takes 0.04 microseconds and 48 bytes."""
TOO_DENSE = (
    f"the line has more than {MOST_NESTED} lists, objects and members, {MOST_TEXTS} texts or {MOST_VALUES} values"
)


def is_dense(line: bytes) -> bool:
    """Whether a line has more of anything than these bounds; what is within its texts does not count."""
    if len(line) <= MOST_NESTED or not _exceeds(line):
        return False
    unescaped = line.replace(b"\\\\", b"").replace(b'\\"', b"")
    return _has_more_texts(unescaped) or _exceeds(b"".join(unescaped.split(b'"')[::2]))


def _exceeds(line: bytes) -> bool:
    nested = line.count(b"[") + line.count(b"{") + line.count(b":")
    return nested > MOST_NESTED or line.count(b",") > MOST_VALUES or _has_more_texts(line)


def _has_more_texts(line: bytes) -> bool:
    return line.count(b'"') > 2 * MOST_TEXTS
