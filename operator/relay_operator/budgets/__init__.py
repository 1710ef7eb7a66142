"""What may be spent: prices, limits, and the lines of objects that wait for room in a budget."""
