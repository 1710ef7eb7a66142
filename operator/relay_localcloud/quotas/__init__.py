"""How much an organization may have of everything, so that none takes the cloud from the others."""
