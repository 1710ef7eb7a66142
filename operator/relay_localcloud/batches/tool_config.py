"""Tool configs of records (section 2, "Tool config"): parsed, clamped, and refused if they are malformed.

Internal and private addresses are rejected.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, Final, Literal

from pydantic import JsonValue, ValidationError

from relay_localcloud.batches.records import OWNED_KEY, RecordFailure
from relay_localcloud.egress.reach import Reach
from relay_localcloud.http.errors import sentence
from relay_localcloud.http.web_addresses import web_address
from relay_wire.batches import ToolConfig
from relay_wire.inference import Family

DEFAULT_ROUNDS: Final = 8
MOST_ROUNDS: Final = 16
DEFAULT_TIMEOUT_MS: Final = 30_000
LONGEST_TIMEOUT_MS: Final = 120_000

_LONGEST_URL = 2_000
_HEADER = re.compile(r"[\x20-\x7e]*")


@dataclass(frozen=True, slots=True)
class Tools:
    """A usable tool config: the numbers are clamped, `reach` limits the addresses that its URL may resolve to."""

    url: str
    kind: Literal["http", "mcp"]
    reach: Reach
    authorization: str | None = field(repr=False)
    context: Mapping[str, JsonValue] | None = field(repr=False)
    most_rounds: int
    timeout_seconds: float


def tools_of(body: Mapping[str, Any], endpoint: Family, *, allow_loopback: bool) -> Tools | RecordFailure | None:
    """A record's tool config; None if it has none."""
    extensions = body.get(OWNED_KEY)
    if extensions is None:
        return None
    if not isinstance(extensions, dict):
        return RecordFailure("invalid_tool_config", f"body.{OWNED_KEY}: it must be a JSON object.")
    given = extensions.get("tool_config")
    if given is None:
        return None
    if not isinstance(given, dict):
        return _invalid("it must be a JSON object")
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
    """The addresses that this URL may resolve to; None if it is not allowed in any case."""
    parts = web_address(url) if len(url) <= _LONGEST_URL else None
    if parts is None:
        return None
    reach = Reach(public=parts.scheme == "https", loopback=allow_loopback)
    if not (reach.public or reach.loopback):
        return None
    return reach if _may_be_reached(parts.hostname or "", reach) else None


def _may_be_reached(host: str, reach: Reach) -> bool:
    """Whether a host may be allowed: an address is checked here, a name only once it is resolved."""
    if host == "localhost" or host.endswith(".localhost"):
        return reach.loopback
    try:
        return reach.allows(ip_address(host))
    except ValueError:
        return True


def _invalid(reason: str) -> RecordFailure:
    return RecordFailure("invalid_tool_config", f"body.{OWNED_KEY}.tool_config: {reason}.")
