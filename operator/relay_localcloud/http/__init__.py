"""HTTP that all operations share: ports, layers, callers, bodies, errors, pages, and their description."""
