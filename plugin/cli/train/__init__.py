"""``berth train`` and ``berth bundle``: what a site learns from its own runs."""
