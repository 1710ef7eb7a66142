"""SSH keys registered with the organization, which its SSH gateway accepts (section 2, "misc requests")."""

from relay_wire.base import Lenient, NonEmpty, Page, Received, ResourceId, Sent


class SshKeyCreate(Sent):
    """Create SSH key request."""

    name: NonEmpty
    public_key: NonEmpty


class SshKeyAttach(Sent):
    """Attach SSH key request."""

    ssh_key_id: NonEmpty


class SshKey(Received):
    """A registered SSH key; its fields are assumed, since section 2 does not show them."""

    id: ResourceId
    name: Lenient[str] = None
    public_key: Lenient[str] = None
    created_at: Lenient[str] = None


SshKeyList = Page[SshKey]
