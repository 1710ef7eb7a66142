"""The SSH gateway: shells and commands in pods, VMs and replicas, by their ids and the keys of their organizations."""
