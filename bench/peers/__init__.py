"""Comparison with other projects that do the same: same API server, same local cloud, one run."""
