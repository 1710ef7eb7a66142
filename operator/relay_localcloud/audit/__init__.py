"""The audit log: who did what to which object, and from where."""
