"""Performance against the floor: ratios taken side by side in one run. `make bench` writes results.md."""
