"""GPUs: what is on sale, the machines that have them, where workloads are placed, who reserved or provided them."""
