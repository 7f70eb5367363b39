"""``berth predict``: one file for each kind of workload."""
