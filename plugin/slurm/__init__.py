"""Slurm: reading the cluster by its own commands, and turning a Decision into a submission."""
