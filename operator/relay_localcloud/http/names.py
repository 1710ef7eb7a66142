"""Names that people give to what is not a workload, such as keys and subscriptions."""

from typing import Annotated, Final

from pydantic import Field, TypeAdapter, ValidationError

from relay_localcloud.http.errors import ApiError
from relay_wire.base import Printable

LONGEST_NAME: Final = 200
_NAME: Final[TypeAdapter[str]] = TypeAdapter(Annotated[str, Field(max_length=LONGEST_NAME), Printable])


def require_name(name: str) -> None:
    """Refuse with ApiError 400 a name that is too long, or that a page would not show as it is."""
    try:
        _NAME.validate_python(name)
    except ValidationError as invalid:
        raise ApiError(400, f"name: at most {LONGEST_NAME} printable characters.") from invalid
