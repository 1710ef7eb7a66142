"""Money: what runs is metered, balances are charged, settled and filled up (sections 2, 3, 4 and 8)."""
