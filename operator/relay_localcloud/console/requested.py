"""What a request for a page asks for, read leniently: what makes no sense is left out."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, urlencode

from starlette.requests import Request

_PAGE: Final = re.compile(r"(/(?:console/[a-z]+)?)(?:\?([!-~]*))?")


@dataclass(frozen=True)
class Requested:
    """A page's path and parameters; links to other pages keep the organization."""

    path: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    origin: str = ""
    """Scheme and host that whoever asks knows the cloud by."""

    @classmethod
    def by(cls, request: Request, public_url: str | None) -> "Requested":
        """As the request has it; its address may be that of a proxy, if the cloud has a public one."""
        origin = public_url or f"{request.url.scheme}://{request.url.netloc}"
        return cls(request.url.path, dict(request.query_params), origin)

    @classmethod
    def at(cls, address: str, origin: str) -> "Requested":
        """The page of the console at an address that a form sent; the first page if it is none of them."""
        page = _PAGE.fullmatch(address)
        return cls("/", origin=origin) if page is None else cls(page[1], dict(parse_qsl(page[2] or "")), origin)

    @property
    def organization_id(self) -> str | None:
        """The organization that was chosen; None for all."""
        return self.parameters.get("org") or None

    @property
    def here(self) -> str:
        """This very page, without what was said on it."""
        return _address(self.path, {name: value for name, value in self.parameters.items() if name != "done"})

    def saying(self, notice: str) -> str:
        """This page, with a notice."""
        return _address(self.path, {**self.parameters, "done": notice})

    def word(self, name: str) -> str | None:
        """A parameter's value; None if it is absent or empty."""
        return self.parameters.get(name) or None

    def number(self, name: str) -> int | None:
        """A parameter as a number from 0 on; None if it is none."""
        text = self.parameters.get(name, "")
        return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None

    def to(self, path: str, **parameters: str | int | None) -> str:
        """The address of a page of the console for the same organization."""
        wanted = {"org": self.organization_id, **parameters}
        return _address(path, {name: str(value) for name, value in wanted.items() if value is not None})


def _address(path: str, parameters: Mapping[str, str]) -> str:
    return f"{path}?{urlencode(parameters)}" if parameters else path
