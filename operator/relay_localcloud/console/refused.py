"""A refused form: its typed values, and which of its fields is wrong."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True)
class Refused:
    """Why a form was refused; empty for a page whose form was not sent."""

    message: str = ""
    action: str = ""
    """The path that the form was sent to."""
    typed: Mapping[str, str] = field(default_factory=dict)

    @property
    def field(self) -> str:
        """The field that the message begins with; empty if it names no field of the form."""
        name = self.message.partition(":")[0].partition(".")[0]
        return name if name in self.typed else ""

    def about(self, name: str) -> str:
        """The message if it is about this field; otherwise empty."""
        return self.message if name == self.field else ""


NOT_REFUSED: Final = Refused()
