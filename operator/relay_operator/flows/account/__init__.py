"""The reconciliation of account objects: key, money, subscription, and end."""
