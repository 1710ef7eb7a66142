"""The organization that the current task works for."""

from contextvars import ContextVar
from typing import Final

ORGANIZATION: Final[ContextVar[str]] = ContextVar("organization", default="")
"""Empty: none, as for a person in the console."""
