"""``berth site doctor``: is this installation sound? One file for each thing that is looked at."""
