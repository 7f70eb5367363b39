"""Reads what a site's monitoring recorded of its jobs: jobstats, or a CSV of metrics.

Each module returns ``ReadUsages``.
"""
