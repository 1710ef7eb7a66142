"""Tells by a few counts which JSON has too many values to be decoded while others wait. Pure."""


def is_crowded(text: bytes, most: int) -> bool:
    """Whether the text has more than `most` values, by its brackets and commas, those in texts included."""
    return len(text) > most and sum(map(text.count, (b"{", b"[", b","))) > most
