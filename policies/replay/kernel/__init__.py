"""The event loop of a replay, in the part of Python and numpy that numba compiles.

Functions work on one ``State`` of arrays. Uncompiled they are the reference that the compiled
ones must agree with, job by job; ``berth.policies.replay.compiled`` compiles them.
"""
