"""The flow of objects that a kind maps to one resource of the cloud each."""
