"""``berth workload``, ``berth model``: what is filed, and what is seen in it."""
