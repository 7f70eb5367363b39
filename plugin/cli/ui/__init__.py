"""``berth ui`` serves the web page; ``berth ui report`` writes one report as an HTML file."""
