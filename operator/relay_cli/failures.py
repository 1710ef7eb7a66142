"""The failure of a command: a sentence on stderr and an exit status."""

from enum import IntEnum


class Status(IntEnum):
    """Exit statuses."""

    FOUND_WRONG = 1
    MISUSED = 2


class Failure(Exception):
    """A sentence for people, without secrets: what is wrong, where, and what to do."""

    def __init__(self, sentence: str, status: Status = Status.FOUND_WRONG) -> None:
        super().__init__(sentence)
        self.status = status
