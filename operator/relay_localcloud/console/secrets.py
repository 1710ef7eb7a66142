"""Keys, tokens and signing secrets have no place on a page that others may look at."""

import re
from typing import Final

_SECRET: Final = re.compile(r"(?<![A-Za-z0-9])(or|vl|ust|whsec|inv)_[A-Za-z0-9_-]{8,}")


def without_secrets(text: str) -> str:
    """The text, of whose secrets only the kind is left."""
    return _SECRET.sub(r"\1_…", text)
