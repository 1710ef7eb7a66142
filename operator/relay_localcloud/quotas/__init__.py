"""Limits on what an organization may have, so that none takes the cloud from the others."""
