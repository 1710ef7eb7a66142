"""What the cloud reports by itself: the subscription, its deliveries, and what these wake."""
