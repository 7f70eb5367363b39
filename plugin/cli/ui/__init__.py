"""``berth ui``: the web page; ``berth ui report``: a part of it as one file."""
