"""The health checks of Argo CD, in Lua that agrees with kstatus; one key per kind, without a wildcard."""

from collections.abc import Iterable
from typing import Final

import yaml

from relay_operator.api.definition import Definition
from relay_operator.api.meta import GROUP

HEALTH: Final = """\
local status = obj.status or {}
local says = {}
for _, condition in ipairs(status.conditions or {}) do
  says[condition.type] = condition
end

local function is(kind)
  return says[kind] ~= nil and says[kind].status == "True"
end

local function told(health, kind, otherwise)
  local message = says[kind] ~= nil and says[kind].message or ""
  return {status = health, message = message ~= "" and message or otherwise}
end

if obj.metadata.deletionTimestamp ~= nil then
  for _, why in ipairs({"Stalled", "Paused", "Reconciling"}) do
    if is(why) then
      return told("Progressing", why, "it is being deleted")
    end
  end
  return told("Progressing", "Ready", "it is being deleted")
end
if status.observedGeneration ~= obj.metadata.generation then
  return {status = "Progressing", message = "the operator has not looked at this spec yet"}
end
if is("Reconciling") then
  return told("Progressing", "Reconciling", "on the way")
end
if is("Stalled") then
  return told("Degraded", "Stalled", "somebody has to act")
end
for _, held in ipairs({"Paused", "Suspended"}) do
  if is(held) then
    return told("Suspended", held, "held back")
  end
end
if is("Ready") then
  return told("Healthy", "Ready", "as asked")
end
return told("Progressing", "Ready", "not ready yet")
"""
"""Reads `obj` and returns Argo CD's health; restricted to Lua 5.1 without libraries."""


class _Literal(str):
    """A text that YAML shows as a block, so that people can read it."""

    __slots__ = ()


class _Dumper(yaml.SafeDumper):
    pass


_Dumper.add_representer(
    _Literal, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style="|")
)


def as_config_map(definitions: Iterable[Definition]) -> str:
    """Argo CD's own ConfigMap, to be patched with `kubectl -n argocd patch configmap argocd-cm --patch-file`."""
    named = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "argocd-cm"}}
    return _yaml(named | {"data": _checks(definitions)})


def as_values(definitions: Iterable[Definition]) -> str:
    """For the chart of Argo CD, `argo-cd`."""
    return _yaml({"configs": {"cm": _checks(definitions)}})


def _checks(definitions: Iterable[Definition]) -> dict[str, str]:
    return {f"resource.customizations.health.{GROUP}_{one.kind}": _Literal(HEALTH) for one in definitions}


def _yaml(document: object) -> str:
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=120)
