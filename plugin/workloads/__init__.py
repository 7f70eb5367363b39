"""Workloads of every type: read from files, named, and stored with their forecasts."""
