"""``berth pilot``: one file a command."""
