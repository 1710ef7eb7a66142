"""What may be paid for: prices, limits, and who waits for room in them."""
