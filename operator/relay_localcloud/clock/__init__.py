"""The cloud's own time, and what falls due in it."""
