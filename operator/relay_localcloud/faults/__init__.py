"""Faults that are injected into requests and answers."""
