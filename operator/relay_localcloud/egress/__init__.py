"""Restricts the addresses that organizations can make the cloud connect to, and the connections to them."""
