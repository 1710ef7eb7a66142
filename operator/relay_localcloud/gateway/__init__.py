"""The workload gateway: every running pod, VM and cluster answers at its endpoint (section 5, "Workload endpoints")."""
