"""``berth pilot``: one file per command."""
