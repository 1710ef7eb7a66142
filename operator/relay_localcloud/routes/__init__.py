"""The management API, one module a noun; each has a `router`."""
