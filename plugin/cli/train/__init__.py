"""``berth train`` and ``berth train bundle``: what a site learns from its own runs."""
