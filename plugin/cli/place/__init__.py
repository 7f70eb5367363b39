"""``berth place`` and ``berth place replace``: decide where jobs run."""
