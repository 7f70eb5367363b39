"""``berth replay`` and ``berth replay tune``."""
