"""How workloads change: explicit tables of state and trigger, and the code that carries their moves out."""
