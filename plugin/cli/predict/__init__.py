"""``berth predict``: one file per kind of workload."""
