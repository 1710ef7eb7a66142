"""`kubectl relay`: shows people what runs and what it costs, with their own rights."""
