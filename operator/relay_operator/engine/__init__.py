"""What every flow shares: the queue and its workers, the cache and what feeds it, Kubernetes, Events."""
