"""What every family shares: workloads, the front door, forecasts, combination, intervals, bundles.

Imports no family: they are found by entry point when a workload of their kind comes.
"""
