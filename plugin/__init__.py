"""Connects Berth with a site: command line, daemon, store, site file and schedulers.

Contains no prediction and no placement policy; it passes requests on and carries decisions out.
"""
