"""What workloads are built and pulled with: registry credentials and runner pools (sections 2 and 4)."""
