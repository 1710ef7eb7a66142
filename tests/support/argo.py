"""How Argo CD reads an object: the Lua that is shipped for it, run as Argo CD runs it."""

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
    """Key of argocd-cm to Lua."""
    found: dict[str, str] = yaml.safe_load(CONFIG_MAP.read_text())["data"]
    return found


def is_shipped(item: Manifest) -> bool:
    """Whether its kind is one of the project's, and not a test's own."""
    return _key(item) in checks()


def argo_health(item: Manifest) -> tuple[Health, str]:
    """Status and message. Argo CD runs Lua 5.1 with the object as `obj`; what is null there is absent."""
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
