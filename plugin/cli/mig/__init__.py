"""``berth mig``: one file per command."""
