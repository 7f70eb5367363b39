"""``berth site calibrate``: measures each type of node through the scheduler, and calibrates the
program predictor with the results.

``kinds`` says what is to be measured, ``state`` what was, ``jobs`` submits and follows,
``learning`` makes platforms and a bundle of it, ``install`` puts them into the site file.
"""
