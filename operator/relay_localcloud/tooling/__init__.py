"""Registry credentials and runner pools (sections 2 and 4)."""
