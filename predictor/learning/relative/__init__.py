"""Relative performance of a site's programs over its platforms."""
