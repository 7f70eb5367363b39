"""``berth site calibrate``: measures each type of node through the scheduler, and calibrates the
program predictor with the results.

``kinds`` groups the site's nodes by platform, ``state`` records what was measured, ``jobs`` submits
the measuring jobs and waits for them, ``learning`` makes platforms and a calibrated bundle from
their results, and ``install`` enters both in the site file.
"""
