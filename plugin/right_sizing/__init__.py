"""What past jobs needed, as advice: ``needs`` learns the largest memory peaks, ``slices`` finds the
MIG slice that would do. ``daemon.fitting`` uses both when a job is submitted.
"""
