"""The cloud's own time, and what falls due on it."""
