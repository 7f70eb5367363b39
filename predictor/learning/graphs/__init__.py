"""Adding a platform to a bundle for model graphs, from runs of ``berth pilot dl`` on it."""
