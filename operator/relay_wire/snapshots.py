"""Snapshots of a VM's disk (section 2, "Create snapshot")."""

from enum import StrEnum

from relay_wire.base import Lenient, Name, Page, Received, ResourceId, Sent, Whole


class SnapshotStatus(StrEnum):
    """The states of a snapshot; all are assumed, since section 2 shows none."""

    CREATING = "creating"
    READY = "ready"
    FAILED = "failed"


class SnapshotCreate(Sent):
    """Create snapshot request."""

    name: Name


class Snapshot(Received):
    """A snapshot; its fields are assumed, since section 2 does not show them."""

    id: ResourceId
    vm_id: Lenient[str] = None
    organization_id: Lenient[str] = None
    name: Lenient[str] = None
    status: Lenient[str] = None
    status_reason: Lenient[str] = None
    size_gb: Lenient[Whole] = None
    created_at: Lenient[str] = None
    ready_at: Lenient[str] = None


SnapshotPage = Page[Snapshot]
