"""The kind-agnostic reconcile engine: observe the cloud, decide, act once, report once.

`plan` and `status` decide and do no I/O; `gather` and `act` do the I/O; `reconciler` puts them in order.
"""
