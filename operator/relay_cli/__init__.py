"""`kubectl relay`: what runs and what it costs, for people, with the rights that they have."""
