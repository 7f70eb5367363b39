"""Slurm support: reads the cluster with Slurm's commands and turns a Decision into a submission."""
