"""How each family of kinds is brought from what is asked to what is."""
