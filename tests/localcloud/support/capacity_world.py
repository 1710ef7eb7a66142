"""A cloud for histories of capacity: three organizations, and the workloads of theirs that live."""

from __future__ import annotations

from dataclasses import dataclass

from tests.localcloud.support.capacity_model import Wish
from tests.localcloud.support.keepalive import Line

TICK = 10


@dataclass
class Tenant:
    """An organization with its key and the token that enrols its nodes."""

    id: str
    key: str
    enrolment: str


@dataclass
class Placed:
    """A pod, a VM or a cluster that lives."""

    id: str
    kind: str
    owner: Tenant
    wish: Wish
    replicas: int = 1
    status: str = ""
    home: str = ""


class World:
    """A cloud with nothing in it and three organizations, who may be owner, tenant and bystander to each other."""

    def __init__(self, line: Line) -> None:
        self.line = line
        latencies = ("placementSeconds", "stopSeconds", "interruptionGraceSeconds")
        line.control("PATCH", "/settings", {**dict.fromkeys(latencies, TICK), "startSeconds": 0})
        self.empty()
        self.tenants = [self._found(f"Tenant {number}") for number in range(3)]
        self.made = 0

    def empty(self) -> None:
        for node in self.line.control("GET", "/nodes")["items"]:
            self.line.control("PATCH", f"/nodes/{node['id']}", {"removed": True})

    def next_name(self) -> str:
        self.made += 1
        return f"w{self.made}"

    def _found(self, name: str) -> Tenant:
        made = self.line.control("POST", "/orgs", {"name": name, "balanceCents": 10**12})
        org, key = made["organizationId"], made["apiKey"]
        self.line.control("PATCH", f"/orgs/{org}", {"provider": True})
        _, _, token = self.line.call(
            key, "POST", f"/v1/orgs/{org}/provider/tokens", {"name": "t", "expiresInHours": 8760}
        )
        return Tenant(org, key, token["token"])
