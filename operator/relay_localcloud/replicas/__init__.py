"""Replicas of clusters and of serving deployments: one engine places, starts, checks, replaces, bills and ends them."""
