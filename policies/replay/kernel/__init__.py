"""The event loop of a replay, in the part of Python and numpy that numba compiles.

Functions work on one ``State`` of arrays. Uncompiled they are the reference that the compiled ones
must agree with, job by job; ``berth.policies.replay.compiled`` compiles them. Names are short
throughout: ``s`` is the state, ``i`` a job, ``o`` an option (a partition that a job was submitted
to), ``p`` a partition, ``q`` a queue, ``u`` a unit (a node or a pool), ``k`` a claim or a row,
``r`` a resource, ``f`` the profile of a pool.
"""
