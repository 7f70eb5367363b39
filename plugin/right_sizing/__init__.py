"""Advises on requests by what past jobs needed: ``needs`` learns the largest memory peaks,
``slices`` finds the MIG slice to try. ``daemon.fitting`` uses both when a job is submitted.
"""
