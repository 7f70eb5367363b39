"""``berth train`` and ``berth train bundle``: make and examine bundles from a site's own runs."""
