"""``berth workload``: what is filed, and what is seen in it."""
