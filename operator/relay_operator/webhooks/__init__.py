"""What the cloud tells by itself: the subscription, its deliveries, what they lead to."""
