"""MIG slices under Slurm: publishing a node's gres as slices change, and the slices that jobs
request."""
