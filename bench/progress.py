"""Tells whoever waits what is measured at the moment."""

import sys


def say(text: str) -> None:
    """One line on stderr."""
    print(text, file=sys.stderr, flush=True)
