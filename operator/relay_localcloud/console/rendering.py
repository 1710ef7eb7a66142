"""Renders pages from `templates/`: all values are escaped, and an undefined name is an error."""

import pathlib
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from relay_localcloud.console import wording
from relay_localcloud.kernel.instants import timestamp

if TYPE_CHECKING:
    import jinja2

_HERE: Final = pathlib.Path(__file__).parent
_FILTERS: Final = (
    wording.absolute,
    wording.ago,
    wording.counted,
    wording.grouped,
    wording.hourly,
    wording.money,
    wording.public_part,
    wording.size,
    wording.span,
    wording.tally,
    wording.tone,
    wording.without_secrets,
    timestamp,
)


def render(template: str, values: dict[str, object]) -> str:
    """Render a template to a whole document."""
    page = _templates().get_template(template).render(values)
    return page.replace("&#34;", "&quot;").replace("&#39;", "&#x27;")  # quotes as `html.escape` writes them


@cache
def asset(name: str) -> bytes:
    """The content of the console's style sheet, script or icon."""
    return (_HERE / "assets" / name).read_bytes()


def _address(name: str) -> str:
    """The address of such a file, which changes with its content, so that browsers may cache it forever."""
    return f"/console/assets/{name}?v={sha256(asset(name)).hexdigest()[:12]}"


@cache
def _templates() -> "jinja2.Environment":
    import jinja2  # noqa: PLC0415 - slow to import, and perhaps never needed

    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    templates.filters.update({each.__name__: each for each in _FILTERS})
    templates.globals["asset"] = _address
    return templates
