"""Quotas of an organization; all of it is assumed, since the cloud's description has none."""

from relay_wire.base import Page, Received


class Quota(Received):
    """How much of a resource an organization may have, and how much it has."""

    name: str
    limit: int
    used: int


QuotaList = Page[Quota]
