"""Webhook subscriptions and the calls to their receivers (section 6)."""
