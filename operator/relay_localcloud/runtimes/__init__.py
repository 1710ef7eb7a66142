"""Runtimes, which run what the rows want: their interface, the simulated one and the one on Kubernetes."""
