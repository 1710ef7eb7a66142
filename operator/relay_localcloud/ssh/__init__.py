"""The SSH gateway: shells and commands in what runs; the user is its id, the key one of its organization's."""
