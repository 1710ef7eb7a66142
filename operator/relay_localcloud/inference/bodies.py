"""The bodies of the inference API: as `bodies.py`, up to 10 MiB (section 8)."""

from typing import Any, Literal, TypeVar

from fastapi import Depends
from pydantic import BaseModel

from relay_localcloud.bodies import BodyReader

LARGEST_BODY = 10 * 1024 * 1024

_ModelT = TypeVar("_ModelT", bound=BaseModel)


def InferenceBody(model: type[_ModelT], *, unread: Literal["ignore", "allow"] = "ignore") -> Any:  # noqa: N802, ANN401 - reads like FastAPI's own markers
    """Mark a parameter as the request's body; `unread` says whether unknown fields are kept."""
    return Depends(BodyReader(model, largest=LARGEST_BODY, unread=unread))
