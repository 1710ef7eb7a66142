"""Which cloud something is in: a short hash of the URL of the API that gave its id. Pure."""

import hashlib
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import urlsplit

_LENGTH: Final = 16
_PORTS: Final = {"http": 80, "https": 443}
_OF_THE_INFERENCE_API: Final = frozenset({"InferenceBatch"})
"""Kinds whose ids the inference API gives."""


class Endpoints(NamedTuple):
    """The clouds that an account calls; empty if unknown."""

    management: str = ""
    inference: str = ""
    """The management API says in which organization, so that its URL counts here as well."""

    def of(self, kind: str) -> str:
        """The one that gives this kind its ids."""
        return self.inference if kind in _OF_THE_INFERENCE_API else self.management

    def but(self, kind: str, known: str) -> "Endpoints":
        """These, with another one for kinds like this."""
        return self._replace(**{"inference" if kind in _OF_THE_INFERENCE_API else "management": known})


NOWHERE: Final = Endpoints()


@lru_cache(maxsize=1024)
def called(base_url: str, inference_url: str) -> Endpoints:
    """The endpoints of an account with these URLs; the latter may be empty."""
    if not base_url:
        return NOWHERE
    both = f"{_spelled(base_url)} {_spelled(inference_url)}"
    return Endpoints(_hashed(_spelled(base_url)), _hashed(both))


def _hashed(url: str) -> str:
    return hashlib.sha256(url.encode()).hexdigest()[:_LENGTH]


def _spelled(url: str) -> str:
    """The URL in one of its spellings; what cannot be called is a cloud of its own."""
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return url
    return f"{parts.scheme}://{parts.hostname}:{port}{parts.path.rstrip('/')}"
