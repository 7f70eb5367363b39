"""``berth mig``: one file a command."""
