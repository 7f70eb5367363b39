"""``berth mig``: shows, plans and applies MIG layouts of GPUs; one file per command."""
