"""The events of section 6, as subscriptions may name them."""

EVENT_TYPES = (
    "cluster.running",
    "cluster.degraded",
    "cluster.failed",
    "replica.healthy",
    "replica.unhealthy",
    "replica.terminated",
    "vm.running",
    "vm.stopped",
    "vm.terminated",
)
