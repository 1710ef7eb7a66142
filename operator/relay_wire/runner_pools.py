"""Pools of CI runners for a version control installation (section 2, "Create runner pool")."""

from typing import Annotated, Final

from pydantic import Field

from relay_wire.base import Lenient, Name, Page, Printable, Received, ResourceId, Sent, Whole

_Int64 = 2**63 - 1
LONGEST_GRANT: Final = 4096

_Word = Annotated[str, Field(min_length=1, max_length=100), Printable]


class RunnerPoolCreate(Sent):
    """Create runner pool request; `grant` proves that the caller may use the installation. Bounds are assumed."""

    installation_id: int = Field(ge=1, le=_Int64)
    name: Name
    pool_ram_gb: int = Field(ge=1, le=65_536)
    vcs_owner: _Word | None = None
    vcs_owner_type: _Word | None = None
    grant: str | None = Field(default=None, min_length=1, max_length=LONGEST_GRANT, repr=False)
    disk_size_gb: int | None = Field(default=None, ge=1, le=65_536)


class RunnerPool(Received):
    """A runner pool; its fields are assumed, since section 2 does not show them."""

    id: ResourceId
    organization_id: Lenient[str] = None
    name: Lenient[str] = None
    installation_id: Lenient[Whole] = None
    vcs_owner: Lenient[str] = None
    vcs_owner_type: Lenient[str] = None
    pool_ram_gb: Lenient[Whole] = None
    disk_size_gb: Lenient[Whole] = None
    created_at: Lenient[str] = None


RunnerPoolList = Page[RunnerPool]
