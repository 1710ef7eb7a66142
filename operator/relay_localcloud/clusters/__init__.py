"""Clusters and their replicas (sections 2 and 4)."""
