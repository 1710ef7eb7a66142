"""People, organizations, members, invites and API keys (sections 2, 4 and 5)."""
