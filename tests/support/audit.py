"""The write requests that the API server answered, with their users, from its audit log."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# Writes only, without bodies, one line each once the reply is complete: reads are not logged and cost nothing.
POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted, Panic]
rules:
- level: Metadata
  verbs: [create, update, patch, delete, deletecollection]
- level: None
"""


@dataclass(frozen=True)
class Write:
    """One write request that the API server has answered."""

    user: str
    verb: str
    resource: str
    subresource: str
    namespace: str
    name: str
    status: int
    at: datetime


class AuditLog:
    """Reads the audit log of a control plane; a line may appear shortly after the reply that it records."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def position(self) -> int:
        """Returns the length of the log in bytes; pass it to `writes_by` to read only what follows."""
        return self.path.stat().st_size if self.path.exists() else 0

    def writes_by(self, user: str, after: int = 0) -> list[Write]:
        """Returns the writes of a user after a position, oldest first.

        A ServiceAccount is the user `system:serviceaccount:<namespace>:<name>`.
        """
        if not self.path.exists():
            return []
        with self.path.open("rb") as log:
            log.seek(after)
            complete, _, _ = log.read().rpartition(b"\n")
        wanted = user.encode()
        return [write for line in complete.splitlines() if wanted in line and (write := _parsed(line)).user == user]


def _parsed(line: bytes) -> Write:
    event = json.loads(line)
    subject = event.get("objectRef", {})
    return Write(
        user=event["user"]["username"],
        verb=event["verb"],
        resource=subject.get("resource", ""),
        subresource=subject.get("subresource", ""),
        namespace=subject.get("namespace", ""),
        name=subject.get("name", ""),
        status=event.get("responseStatus", {}).get("code", 0),
        at=datetime.fromisoformat(event["stageTimestamp"]),
    )
