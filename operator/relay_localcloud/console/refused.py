"""A form that was refused: what was typed into it, and which of its fields is wrong."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True)
class Refused:
    """Why a form could not be granted; of a page that no form was sent from, nothing."""

    message: str = ""
    action: str = ""
    """The path that it was sent to."""
    typed: Mapping[str, str] = field(default_factory=dict)

    @property
    def field(self) -> str:
        """The field that the message begins with; empty if it is about none of the form."""
        name = self.message.partition(":")[0].partition(".")[0]
        return name if name in self.typed else ""

    def about(self, name: str) -> str:
        """What is wrong with a field; empty if nothing is."""
        return self.message if name == self.field else ""


NOT_REFUSED: Final = Refused()
