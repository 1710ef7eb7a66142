"""Performance relative to the floor, measured side by side in one run. `make bench` writes results.md."""
