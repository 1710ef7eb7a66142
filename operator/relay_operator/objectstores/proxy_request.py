"""A client's request to the proxy: a tunnel, or one request over plain http. Pure."""

import base64
import re
from dataclasses import dataclass, field

_AUTHORITY = re.compile(r"(?P<host>[A-Za-z0-9_.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::(?P<port>[0-9]{1,5}))?")
_METHOD = re.compile(r"[A-Z]{1,16}")
_OF_THE_PROXY = ("proxy-authorization", "proxy-connection", "connection", "keep-alive")


class BadRequest(Exception):
    """A request that the proxy does not understand."""


@dataclass(frozen=True, slots=True)
class ProxyRequest:
    """`tunnel` is a CONNECT; otherwise `origin_form` is the request's head as the server gets it."""

    host: str
    port: int
    tunnel: bool
    authorization: str = field(repr=False)
    origin_form: bytes = field(default=b"", repr=False)

    @property
    def user(self) -> str:
        """The user of Basic authorization; empty if the request has none."""
        scheme, _, encoded = self.authorization.partition(" ")
        if scheme.lower() != "basic":
            return ""
        try:
            return base64.b64decode(encoded, validate=True).decode().partition(":")[0]
        except ValueError:  # not base64, or not UTF-8
            return ""


def parse_request(head: bytes) -> ProxyRequest:
    """Parse a request's head, including its empty line; raises `BadRequest`."""
    lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    method, _, rest = lines[0].partition(" ")
    target, _, version = rest.rpartition(" ")
    if not _METHOD.fullmatch(method) or version not in ("HTTP/1.1", "HTTP/1.0"):
        raise BadRequest("Not a request of HTTP/1.1")
    headers = [(line.partition(":")[0].strip().lower(), line) for line in lines[1:]]
    granted = [line.partition(":")[2].strip() for name, line in headers if name == "proxy-authorization"]
    authorization = granted[0] if len(granted) == 1 else ""
    if method == "CONNECT":
        host, port = _authority(target, 0)
        return ProxyRequest(host, port, tunnel=True, authorization=authorization)
    scheme, separator, after = target.partition("://")
    if not separator or scheme.lower() != "http":
        raise BadRequest("Only CONNECT, and requests for http URLs")
    authority = re.split(r"[/?]", after, maxsplit=1)[0]
    host, port = _authority(authority, 80)
    path = after[len(authority) :]
    # One request per connection: any further bytes go to the server that was checked for this one.
    kept = [line for name, line in headers if name not in _OF_THE_PROXY]
    first = f"{method} {path if path.startswith('/') else '/' + path} HTTP/1.1"
    origin_form = "\r\n".join([first, *kept, "Connection: close", "", ""]).encode("latin-1")
    return ProxyRequest(host, port, tunnel=False, authorization=authorization, origin_form=origin_form)


def _authority(text: str, default_port: int) -> tuple[str, int]:
    match = _AUTHORITY.fullmatch(text)
    port = int(match["port"] or default_port) if match else 0
    if match is None or not 0 < port < 65536:
        raise BadRequest("The request names no host and port to connect to")
    return match["host"].strip("[]"), port
