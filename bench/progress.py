"""Progress messages of a run."""

import sys


def say(text: str) -> None:
    """Prints one line to stderr."""
    print(text, file=sys.stderr, flush=True)
