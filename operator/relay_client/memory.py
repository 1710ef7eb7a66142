"""How much memory an answer takes. Pure."""

import sys

from pydantic_core import to_json

from relay_client.crowding import brackets_and_commas


def memory_of(item: object) -> int:
    """At least the bytes of memory that an item takes.

    One wide character makes every character of its text take up to four bytes, and so it does in the whole JSON. A text
    that is not ASCII keeps what is written here, too. Each value and each object takes more than its JSON.
    """
    written = to_json(item, exclude_none=True)
    brackets, commas = brackets_and_commas(written)
    texts = sys.getsizeof(written.decode()) + (0 if written.isascii() else len(written))
    return texts + 72 * commas + 1200 * brackets
