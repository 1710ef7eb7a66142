"""How a command ends that cannot do what it was asked for."""

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
