"""HTTP as every operation has it: ports, layers, who calls, bodies, errors, pages, and their description."""
