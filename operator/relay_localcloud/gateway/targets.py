"""Which workload a request is for: by its Host, or by the path `/_w/<workload id>/` where names cannot be resolved."""

import re
from dataclasses import dataclass
from typing import Final

_SUFFIX: Final = ".localhost"
_PORT: Final = re.compile(r":[0-9]*$")
_PER_PORT: Final = re.compile(r"([1-9][0-9]{0,4})-(.+)")
_BY_ID: Final = re.compile(r"(/_w/([^/?]+))/?(.*)", re.DOTALL)

HIGHEST_PORT: Final = 65_535


@dataclass(frozen=True, slots=True)
class LabelTarget:
    """Named by the label of its endpoint's host; `port` in the per-port form of production VMs (section 2, "VM")."""

    label: str
    port: int | None


@dataclass(frozen=True, slots=True)
class IdTarget:
    """Named by its id in the path; `prefix` is the part of the path that the workload does not see."""

    workload_id: str
    prefix: str


Target = LabelTarget | IdTarget


def target_of(host: str, path: str) -> tuple[Target, str] | None:
    """The workload that is meant, and the path and query that it sees; None where none is named."""
    if not path.startswith("/"):
        return None
    name = _PORT.sub("", host).rstrip(".").lower()
    if name.endswith(_SUFFIX):
        return _label(name.removesuffix(_SUFFIX)), path
    by_id = _BY_ID.fullmatch(path)
    if by_id is None:
        return None
    prefix, workload_id, rest = by_id.groups()
    return IdTarget(workload_id, prefix), f"/{rest}"


def _label(label: str) -> LabelTarget:
    per_port = _PER_PORT.fullmatch(label)
    if per_port is None or int(per_port[1]) > HIGHEST_PORT:
        return LabelTarget(label, None)
    return LabelTarget(per_port[2], int(per_port[1]))
