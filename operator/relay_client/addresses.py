"""The address of a call: base URL, path and query. Pure."""

from collections.abc import Mapping
from urllib.parse import SplitResult, quote, urlencode, urlsplit

from relay_client.errors import BadRequest, Outcome
from relay_client.operations import AnyOperation
from relay_wire.base import LONGEST_SECRET


def checked_base_url(url: str, name: str = "base") -> str:
    """The URL without a trailing slash. Raises ValueError, which names the URL, if no calls can be made below it."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or not _port_is_valid(parts):
        raise ValueError(f"the {name} URL must begin with http:// or https:// and name a host, and a port up to 65535")
    if not url.isprintable() or " " in url:
        raise ValueError(f"the {name} URL must not contain spaces or line ends")
    # An empty query or fragment is one, too: each path would come after it.
    if parts.username or parts.password or "?" in url or "#" in url:
        raise ValueError(f"the {name} URL must not contain credentials, a query or a fragment")
    return url.rstrip("/")


def _port_is_valid(parts: SplitResult) -> bool:
    try:
        return parts.port != 0
    except ValueError:
        return False


def checked_key(api_key: str) -> str:
    """The key. Raises ValueError, which does not repeat the key, if a header cannot hold it."""
    if not api_key or not api_key.isascii() or not api_key.isprintable() or " " in api_key:
        raise ValueError("the API key is empty, or contains spaces, line ends or characters outside ASCII")
    if len(api_key) > LONGEST_SECRET:
        raise ValueError(f"the API key has more than {LONGEST_SECRET} characters")
    return api_key


def target(operation: AnyOperation, path_params: Mapping[str, str], query: Mapping[str, str | int] | None) -> str:
    """Path and query of one call. Raises TypeError for a missing or unknown parameter, BadRequest for a bad value."""
    path = operation.path
    for name, value in path_params.items():
        if (slot := f"{{{name}}}") not in path:
            raise TypeError(f"{operation.name} has no path parameter {name}")
        path = path.replace(slot, _segment(operation, name, value))
    if "{" in path:
        raise TypeError(f"{operation.name} needs every parameter of {operation.path}")
    return f"{path}?{urlencode(query)}" if query else path


def _segment(operation: AnyOperation, name: str, value: str) -> str:
    # Identifiers are opaque, so they may hold anything; these values would address another resource.
    if value in {"", ".", ".."}:
        text = f"not sent: {value!r} cannot be the path parameter {name}"
        raise BadRequest(operation.name, text, outcome=Outcome.NOT_SENT)
    return quote(value, safe="")
