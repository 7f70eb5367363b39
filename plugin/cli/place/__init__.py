"""``berth place`` and ``berth place replace``."""
