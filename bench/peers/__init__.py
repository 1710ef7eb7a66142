"""Others' ways to the same end, beside ours: on the same API server, against the same local cloud, in one run."""
