"""Money: running workloads are metered, balances are charged, settled and recharged (sections 2, 3, 4 and 8)."""
