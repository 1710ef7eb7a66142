"""How each family of kinds is reconciled."""
