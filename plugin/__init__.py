"""Connects: the command line, the daemon, the store, the site file and the schedulers.

Knows nothing of how to predict or how to choose; it brings requests in and carries decisions out.
"""
