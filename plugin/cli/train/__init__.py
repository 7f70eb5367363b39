"""``berth train``, ``berth evaluate``, ``berth bundle``: what a site learns from its own runs."""
