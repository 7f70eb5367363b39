"""Workloads of every kind: read from files, named, filed in the store with their forecasts."""
