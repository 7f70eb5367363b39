"""``berth place`` and ``berth replace``."""
