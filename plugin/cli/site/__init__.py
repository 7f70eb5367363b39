"""``berth site``: set a cluster up, check it, keep it in order; one file a command."""
