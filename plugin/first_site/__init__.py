"""A first site file, made of what the scheduler tells: ``berth site init``.

``first`` makes the candidates, ``guess`` the platforms of the nodes, ``stub`` the platforms that
are to be benchmarked, ``write`` the text.
"""
