"""The parameters of a request for a page, read leniently: invalid ones are ignored."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, urlencode

from starlette.requests import Request

_PAGE: Final = re.compile(r"(/(?:console/[a-z]+)?)(?:\?([!-~]*))?")


@dataclass(frozen=True)
class Requested:
    """The path and parameters of a page; links to other pages keep the organization."""

    path: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    origin: str = ""
    """The scheme and host under which the browser reaches the cloud."""

    @classmethod
    def by(cls, request: Request, public_url: str | None) -> "Requested":
        """Read a request; `public_url`, if the cloud has one, replaces the origin, which may be a proxy's."""
        origin = public_url or f"{request.url.scheme}://{request.url.netloc}"
        return cls(request.url.path, dict(request.query_params), origin)

    @classmethod
    def at(cls, address: str, origin: str) -> "Requested":
        """The page at an address that a form sent; the overview if the address cannot be one of the console's."""
        page = _PAGE.fullmatch(address)
        return cls("/", origin=origin) if page is None else cls(page[1], dict(parse_qsl(page[2] or "")), origin)

    @property
    def organization_id(self) -> str | None:
        """The selected organization; None for all."""
        return self.parameters.get("org") or None

    @property
    def here(self) -> str:
        """The address of this page, without a notice."""
        return _address(self.path, {name: value for name, value in self.parameters.items() if name != "done"})

    def saying(self, notice: str) -> str:
        """The address of this page with a notice, a key of `NOTICES`."""
        return _address(self.path, {**self.parameters, "done": notice})

    def word(self, name: str) -> str | None:
        """A parameter's value; None if it is absent or empty."""
        return self.parameters.get(name) or None

    def number(self, name: str) -> int | None:
        """A parameter as a non-negative integer; None if it is not one."""
        text = self.parameters.get(name, "")
        return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None

    def to(self, path: str, **parameters: str | int | None) -> str:
        """The address of another page for the same organization; parameters that are None are left out."""
        wanted = {"org": self.organization_id, **parameters}
        return _address(path, {name: str(value) for name, value in wanted.items() if value is not None})


def _address(path: str, parameters: Mapping[str, str]) -> str:
    return f"{path}?{urlencode(parameters)}" if parameters else path
