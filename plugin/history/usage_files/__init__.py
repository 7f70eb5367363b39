"""Reads what a site's monitoring recorded of its jobs: jobstats, ClusterCockpit, a CSV of metrics.

Each module returns ``ReadUsages``; ``detect`` chooses among them by a file's content.
"""
