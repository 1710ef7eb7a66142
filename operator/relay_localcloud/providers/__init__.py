"""What the owners of machines do: enrol, hold and remove nodes, reserve units of them, lend those to spot, earn."""
