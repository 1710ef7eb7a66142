"""Pods and VMs, and what belongs to one of them: snapshots, SSH keys, transfers, logs (sections 2, 3 and 4)."""
