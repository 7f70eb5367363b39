"""The parts that all families share: workloads, the forecaster, forecasts, combination, intervals
and bundles.

This package imports no family. Families are found by entry point when a workload of their kind is
predicted.
"""
