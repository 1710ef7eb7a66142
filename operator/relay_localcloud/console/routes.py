"""Every page and action of the console."""

from collections.abc import Callable, Mapping
from typing import Final

from starlette.responses import Response

from relay_localcloud.console import (
    actions,
    batches,
    clock,
    faults,
    files,
    money,
    nodes,
    outbox,
    overview,
    requests,
    webhooks,
    workloads,
)
from relay_localcloud.console.layout import PAGES
from relay_localcloud.console.markup import Html
from relay_localcloud.console.reading import Reading
from relay_localcloud.console.view import CurrentView
from relay_localcloud.http.routing import Router

_Content = Callable[[Reading], Html]

_CONTENTS: Final[Mapping[str, _Content]] = {
    "/": overview.content,
    workloads.PATH: workloads.content,
    nodes.PATH: nodes.content,
    money.PATH: money.content,
    "/console/batches": batches.content,
    webhooks.PATH: webhooks.content,
    requests.PATH: requests.content,
    faults.PATH: faults.content,
    "/console/outbox": outbox.content,
    clock.PATH: clock.content,
}


def _page(title: str, content: _Content) -> Callable[..., object]:
    async def page(view: CurrentView) -> Response:
        return view.answer(title, content)

    return page


_pages: Final = Router()
for _path, _content in _CONTENTS.items():
    _pages.get(_path)(_page(PAGES[_path], _content))

ROUTERS: Final[tuple[Router, ...]] = (_pages, actions.router, files.router)
