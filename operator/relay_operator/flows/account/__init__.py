"""The account objects themselves: key, money, subscription, and their end."""
