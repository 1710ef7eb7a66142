"""The routes of the console: its pages, its actions, and the files that pages load."""

from collections.abc import Callable
from typing import Annotated, Final

from starlette.responses import Response

from relay_localcloud.console import actions
from relay_localcloud.console.pages import PAGES, Page
from relay_localcloud.console.rendering import asset
from relay_localcloud.console.view import CurrentView
from relay_localcloud.http.arguments import Path
from relay_localcloud.http.errors import ApiError
from relay_localcloud.http.routing import Router

_TYPES: Final = {"console.css": "text/css", "console.js": "text/javascript", "icon.svg": "image/svg+xml"}

_router: Final = Router()


@_router.get("/console/assets/{name}")
async def get_asset(name: Annotated[str, Path()]) -> Response:
    """A file that browsers may cache forever."""
    if name not in _TYPES:
        raise ApiError(404, f"The console has no file {name!r}.")
    kept = {"Cache-Control": "public, max-age=31536000, immutable", "X-Content-Type-Options": "nosniff"}
    return Response(asset(name), headers=kept, media_type=_TYPES[name])


def _endpoint(page: Page) -> Callable[..., object]:
    async def answer(view: CurrentView) -> Response:
        return view.answer(page)

    return answer


for _path, _page in PAGES.items():
    _router.get(_path)(_endpoint(_page))

ROUTERS: Final[tuple[Router, ...]] = (_router, actions.router)
