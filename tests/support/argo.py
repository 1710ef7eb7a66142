"""The health of an object in Argo CD: runs the Lua checks that the chart ships, as Argo CD runs them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Literal, cast

import yaml
from lupa.lua51 import LuaRuntime  # type: ignore[import-untyped]

from tests.support.chart import CHART

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.kube import Manifest

Health = Literal["Progressing", "Degraded", "Suspended", "Healthy"]
CONFIG_MAP = CHART / "argocd" / "argocd-cm.yaml"


@cache
def checks() -> dict[str, str]:
    """Returns the health checks of the chart's argocd-cm: key to Lua source."""
    found: dict[str, str] = yaml.safe_load(CONFIG_MAP.read_text())["data"]
    return found


def is_shipped(item: Manifest) -> bool:
    """Whether the chart ships a health check for the object's kind; false for kinds that only tests define."""
    return _key(item) in checks()


def argo_health(item: Manifest) -> tuple[Health, str]:
    """Returns status and message. As in Argo CD, Lua 5.1 sees the object as `obj`, without fields that are null."""
    lua = _lua()
    lua.globals()["obj"] = lua.table_from(_without_nulls(item), recursive=True)
    answer = _compiled(checks()[_key(item)])()
    return cast("Health", answer["status"]), answer["message"]


def _key(item: Manifest) -> str:
    return f"resource.customizations.health.{item['apiVersion'].partition('/')[0]}_{item['kind']}"


@cache
def _lua() -> LuaRuntime:
    return LuaRuntime()


@cache
def _compiled(check: str) -> Callable[[], Any]:
    compiled: Callable[[], Any] = _lua().compile(check)
    return compiled


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(one) for name, one in value.items() if one is not None}
    return [_without_nulls(one) for one in value] if isinstance(value, list) else value
