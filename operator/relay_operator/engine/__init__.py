"""What all flows share: the queue and its workers, the cache and its informer, writes to Kubernetes, Events."""
