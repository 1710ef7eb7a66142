"""The fields of a submitted form, read as texts and numbers."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite

from relay_localcloud.http.errors import ApiError


@dataclass(frozen=True)
class Fields:
    """The typed values by the names of the fields."""

    typed: Mapping[str, str]

    def text(self, name: str) -> str:
        """A field without surrounding blanks; empty if it is absent."""
        return self.typed.get(name, "").strip()

    def has(self, name: str) -> bool:
        """Whether a field was sent; a tick box is sent only if it is ticked."""
        return name in self.typed

    def number(self, name: str) -> float:
        """A field as a finite number; ApiError 400 if it is none."""
        try:
            number = float(self.text(name))
        except ValueError:
            raise ApiError(400, f"{name}: give a number.") from None
        if not isfinite(number):
            raise ApiError(400, f"{name}: give a finite number.")
        return number

    def whole_number(self, name: str) -> int:
        """A field as a whole number; ApiError 400 if it is none."""
        number = self.number(name)
        if not number.is_integer():
            raise ApiError(400, f"{name}: give a whole number.")
        return int(number)
