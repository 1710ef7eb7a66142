"""GPUs: what is on sale, the machines that have them, where workloads land, who reserved or provided them."""
