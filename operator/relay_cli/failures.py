"""How a command ends that cannot do what it was asked for."""

import sys
from enum import IntEnum


class Status(IntEnum):
    """Exit statuses."""

    FOUND_WRONG = 1
    MISUSED = 2


class Failure(Exception):
    """One sentence for people, which holds no secret: what is wrong, where, what to do."""

    def __init__(self, sentence: str, status: Status = Status.FOUND_WRONG) -> None:
        super().__init__(sentence)
        self.status = status


def complain(sentence: str) -> None:
    """On stderr, where programs that read the rest do not stumble over it."""
    sys.stderr.write(f"kubectl relay: {sentence}\n")
