"""``berth pilot``: measures programs, models and machines; one file per command."""
