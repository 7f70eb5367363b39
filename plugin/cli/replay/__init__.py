"""``berth replay`` and ``berth tune``."""
