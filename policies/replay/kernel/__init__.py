"""The event loop of a replay, written in the subset of Python and numpy that numba compiles.

All functions work on one ``State`` of arrays. ``berth.policies.replay.compiled`` compiles them;
uncompiled they are the reference, and both must give the same result for each job. Variable names
are short: ``s`` is the state, ``i`` a job, ``o`` an option (a job in one of the partitions that it
was submitted to), ``p`` a partition, ``q`` a queue, ``u`` a unit (a node or a pool), ``k`` a claim
or a row, ``r`` a resource, ``f`` the profile of a pool.
"""
