"""``berth ui``: the page, and ``berth ui report``: the same as one file."""
