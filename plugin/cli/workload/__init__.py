"""``berth workload``: manages stored workloads, and shows what Berth reads from them."""
