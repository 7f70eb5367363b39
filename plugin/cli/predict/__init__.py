"""``berth predict``: ranks platforms for a workload; one file per type of workload."""
