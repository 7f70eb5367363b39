"""``berth site calibrate``: each kind of node measured through the scheduler, then learnt from.

``kinds`` says what is to be measured, ``state`` what was, ``jobs`` submits and follows,
``learning`` makes platforms and a bundle of it, ``install`` puts them into the site file.
"""
