"""What the owners of machines do: enrol, hold and remove nodes, reserve their units, lend these to spot, and earn."""
