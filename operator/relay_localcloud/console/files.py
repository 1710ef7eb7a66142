"""The console's own style sheet, script and icon; their addresses change with their contents."""

import pathlib
from functools import cache
from hashlib import sha256
from typing import Annotated, Final

from starlette.responses import Response

from relay_localcloud.http.arguments import Path
from relay_localcloud.http.errors import ApiError
from relay_localcloud.http.routing import Router

router = Router()

_FOLDER: Final = pathlib.Path(__file__).parent / "assets"
_TYPES: Final = {"console.css": "text/css", "console.js": "text/javascript", "icon.svg": "image/svg+xml"}


@router.get("/console/assets/{name}")
async def asset(name: Annotated[str, Path()]) -> Response:
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
