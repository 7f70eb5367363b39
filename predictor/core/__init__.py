"""What every family shares: workloads, the forecaster, forecasts, combination, intervals, bundles.

Imports no family: they are found by entry point when a workload of their kind comes.
"""
