"""The page of an organization's quotas, with what is used of each."""

from relay_localcloud.console.reading import Reading
from relay_localcloud.identity import organizations
from relay_localcloud.quotas import quotas


def content(reading: Reading) -> dict[str, object]:
    """Every quota of the selected organization, else of the first one."""
    tx, organization_id = reading.tx, reading.organization_id
    return {
        "organization_id": organization_id,
        "whose": organizations.name_of(tx, organization_id),
        "quotas": [
            {"name": each.quota.name, "advice": each.quota.advice, "used": each.used, "limit": each.limit}
            for each in quotas.standings(tx, organization_id)
        ],
    }
