"""Credentials for private container registries (section 2, "Registry credential")."""

from typing import Literal

from pydantic import Field

from relay_wire.base import Lenient, Name, NonEmpty, Page, Received, ResourceId, Sent


class RegistryCredentialCreate(Sent):
    """Create registry credential request; the keys of `credentials` depend on `authType`, and are assumed."""

    name: Name
    server: NonEmpty
    auth_type: Literal["basic", "aws_ecr", "gcp_gcr"]
    credentials: dict[str, str] = Field(repr=False)


class RegistryCredential(Received):
    """A credential without its secrets; its fields are assumed, since section 2 does not show them."""

    id: ResourceId
    name: Lenient[str] = None
    server: Lenient[str] = None
    auth_type: Lenient[str] = None
    created_at: Lenient[str] = None


RegistryCredentialList = Page[RegistryCredential]
