"""``berth workload``, ``berth workload model``: what is filed, and what is seen in it."""
