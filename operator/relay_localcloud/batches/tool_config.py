"""Tool configs of records (section 2, "Tool config"): read, clamped, and refused where they are malformed.

Internal and private addresses are rejected.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Any, Final, Literal

from pydantic import JsonValue, ValidationError

from relay_localcloud.batches.records import OWNED_KEY, RecordFailure
from relay_localcloud.http.errors import sentence
from relay_localcloud.http.web_addresses import web_address
from relay_wire.batches import ToolConfig
from relay_wire.inference import Family

DEFAULT_ROUNDS: Final = 8
MOST_ROUNDS: Final = 16
DEFAULT_TIMEOUT_MS: Final = 30_000
LONGEST_TIMEOUT_MS: Final = 120_000

_TRANSLATED: Final = IPv6Network("64:ff9b::/96")
_TRANSLATED_LOCALLY: Final = IPv6Network("64:ff9b:1::/48")

_LONGEST_URL = 2_000
_HEADER = re.compile(r"[\x20-\x7e]*")


@dataclass(frozen=True, slots=True)
class Reach:
    """Which addresses may be connected to."""

    public: bool
    loopback: bool

    def allows(self, address: IPv4Address | IPv6Address) -> bool:
        """Whether this address may be connected to."""
        for meant in _meant(address):
            if meant.is_loopback:
                if not self.loopback:
                    return False
            elif not self.public or not meant.is_global or meant.is_multicast or meant in _TRANSLATED_LOCALLY:
                return False
        return True


class AddressRefusedError(OSError):
    """A name or a connection led to an address that is not allowed."""


def check(reach: Reach, address: str) -> None:
    """Raises AddressRefusedError where this address may not be connected to."""
    if not reach.allows(ip_address(address.partition("%")[0])):
        raise AddressRefusedError("the address is internal or private")


@dataclass(frozen=True, slots=True)
class Tools:
    """A tool config that can be used: the numbers are clamped, `reach` is what its address may lead to."""

    url: str
    kind: Literal["http", "mcp"]
    reach: Reach
    authorization: str | None = field(repr=False)
    context: Mapping[str, JsonValue] | None = field(repr=False)
    most_rounds: int
    timeout_seconds: float


def tools_of(body: Mapping[str, Any], endpoint: Family, *, allow_loopback: bool) -> Tools | RecordFailure | None:
    """What a record's tool config says; None where it has none."""
    extensions = body.get(OWNED_KEY)
    if extensions is None:
        return None
    if not isinstance(extensions, dict):
        return _invalid(f"body.{OWNED_KEY}: it must be an object")
    given = extensions.get("tool_config")
    if given is None:
        return None
    if endpoint is not Family.CHAT_COMPLETIONS:
        return _invalid(f"only records of {Family.CHAT_COMPLETIONS} can have one")
    try:
        config = ToolConfig.model_validate(given, by_alias=True, by_name=False, extra="ignore")
    except ValidationError as error:
        return _invalid(sentence(error.errors(include_url=False, include_context=False, include_input=False))[:-1])
    return _checked(config, allow_loopback)


def _checked(config: ToolConfig, allow_loopback: bool) -> Tools | RecordFailure:
    if config.authorization is not None and not _HEADER.fullmatch(config.authorization):
        return _invalid("authorization: it must be printable ASCII")
    reach = _reach(config.url, allow_loopback)
    if reach is None:
        return _invalid("url: it must be an https address that is neither internal nor private")
    return Tools(
        config.url,
        config.type,
        reach,
        config.authorization,
        config.context,
        min(config.max_rounds or DEFAULT_ROUNDS, MOST_ROUNDS),
        min(config.timeout_ms or DEFAULT_TIMEOUT_MS, LONGEST_TIMEOUT_MS) / 1000,
    )


def _reach(url: str, allow_loopback: bool) -> Reach | None:
    """What this URL may lead to; None where it is not allowed whatever it resolves to."""
    parts = web_address(url) if len(url) <= _LONGEST_URL else None
    if parts is None:
        return None
    reach = Reach(public=parts.scheme == "https", loopback=allow_loopback)
    if not (reach.public or reach.loopback):
        return None
    return reach if _may_be_reached(parts.hostname or "", reach) else None


def _may_be_reached(host: str, reach: Reach) -> bool:
    """Whether a host may be allowed: an address says so itself, a name only once it is resolved."""
    if host == "localhost" or host.endswith(".localhost"):
        return reach.loopback
    try:
        return reach.allows(ip_address(host))
    except ValueError:
        return True


def _invalid(reason: str) -> RecordFailure:
    return RecordFailure("invalid_tool_config", f"body.{OWNED_KEY}.tool_config: {reason}.")


def _meant(address: IPv4Address | IPv6Address) -> tuple[IPv4Address | IPv6Address, ...]:
    """The addresses that a packet to this one may end at."""
    if isinstance(address, IPv4Address):
        return (address,)
    if address.ipv4_mapped is not None:
        return (address.ipv4_mapped,)
    if address in _TRANSLATED:
        return (IPv4Address(int(address) & 0xFFFF_FFFF),)
    inner = [address.sixtofour] if address.sixtofour else list(address.teredo or ())
    return (address, *inner)
