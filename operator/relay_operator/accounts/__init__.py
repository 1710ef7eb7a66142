"""Resolves an account's name to a connection of its organization."""
