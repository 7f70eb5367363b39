"""``berth site``: sets up, checks and maintains an installation; one file per command."""
