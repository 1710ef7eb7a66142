"""The kinds: one file each, and the list that the operator is made of."""
