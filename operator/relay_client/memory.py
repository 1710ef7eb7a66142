"""How much memory an answer takes. Pure."""

import sys

from pydantic_core import to_json

from relay_client.crowding import brackets_and_commas


def memory_of(item: object) -> int:
    """At least the bytes of memory that an item takes.

    One wide character makes every character of its text take up to four bytes, and so it does in the whole JSON. Each
    value and each object takes more than its JSON.
    """
    written = to_json(item, exclude_none=True)
    brackets, commas = brackets_and_commas(written)
    return 512 + sys.getsizeof(written.decode()) + 72 * commas + 512 * brackets
