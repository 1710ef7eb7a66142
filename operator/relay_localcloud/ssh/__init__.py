"""The SSH gateway: shells and commands in workloads; the user name is a workload's id, the key its organization's."""
