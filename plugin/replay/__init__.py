"""Replays for a site: traces from accounting, the cluster from the site file, results as tables."""
