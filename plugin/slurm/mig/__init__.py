"""MIG slices under Slurm: a node's gres as slices come and go, and what its queue asks for."""
