"""Which texts are http and https addresses that may be stored and called."""

from urllib.parse import SplitResult, urlsplit


def web_address(text: str) -> SplitResult | None:
    """The parts of an http or https URL; None for any other text."""
    if not text.isascii() or not text.isprintable() or " " in text:
        return None
    try:
        parts = urlsplit(text)
        names_a_server = bool(parts.hostname) and parts.port != 0
    except ValueError:
        return None
    return parts if names_a_server and parts.scheme in {"http", "https"} else None


def is_base_address(text: str) -> bool:
    """Whether paths can be appended to it: an http or https URL without credentials, query and fragment."""
    parts = web_address(text)
    return parts is not None and "@" not in parts.netloc and not (parts.query or parts.fragment)
