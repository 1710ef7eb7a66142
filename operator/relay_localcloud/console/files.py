"""The console's own style sheet, script and icon; their addresses change with their contents."""

from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

from fastapi import APIRouter, Response

from relay_localcloud.http.errors import ApiError

router = APIRouter(include_in_schema=False)

_FOLDER: Final = Path(__file__).parent / "assets"
_TYPES: Final = {"console.css": "text/css", "console.js": "text/javascript", "icon.svg": "image/svg+xml"}


@router.get("/console/assets/{name}")
async def asset(name: str) -> Response:
    """A file, for browsers to keep."""
    if name not in _TYPES:
        raise ApiError(404, f"The console has no file {name!r}.")
    kept = {"Cache-Control": "public, max-age=31536000, immutable", "X-Content-Type-Options": "nosniff"}
    return Response(_content(name), headers=kept, media_type=_TYPES[name])


def address(name: str) -> str:
    """Where a file is."""
    return f"/console/assets/{name}?v={sha256(_content(name)).hexdigest()[:12]}"


@cache
def _content(name: str) -> bytes:
    return (_FOLDER / name).read_bytes()
