"""Tool rounds: one configuration, put into every record (section 2, "Tool config")."""

from collections.abc import Mapping
from typing import Any

from pydantic import JsonValue

from relay_operator.records.problems import Fault
from relay_operator.records.problems import ProblemCode as Code
from relay_wire.batches import ToolConfig

CHAT = "/v1/chat/completions"
"""The only endpoint whose records may have tool rounds."""


def tool_config_of(config: ToolConfig) -> dict[str, JsonValue]:
    """What stands at `body.relay.tool_config`; absent fields stay absent, so that the cloud's defaults hold."""
    return config.model_dump(mode="json", by_alias=True, exclude_none=True)


def put_tool_config(record: dict[str, Any], endpoint: str, tool_config: Mapping[str, JsonValue] | None) -> Fault | None:
    """Put the object's configuration, if it has one, into a record whose `body` is an object."""
    body = record["body"]
    if "tool_config" in body or "tool_config" in record:
        return Code.TOOL_CONFIG_MOVED, "tool_config has moved: put it at body.relay.tool_config"
    relay = body.get("relay")
    if relay is not None and not isinstance(relay, dict):
        return Code.INVALID_TOOL_CONFIG, "body.relay must be a JSON object"
    own = relay is not None and "tool_config" in relay
    if endpoint != CHAT and (own or tool_config is not None):
        return Code.INVALID_TOOL_CONFIG, f"only records of {CHAT} can have a tool_config"
    if tool_config is None:
        return None
    if own:
        return Code.TOOL_CONFIG_TWICE, "body.relay.tool_config is there, and the batch has a toolConfig: keep one"
    body["relay"] = {**(relay or {}), "tool_config": tool_config}
    return None
