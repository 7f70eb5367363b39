"""Berth's submit path on simulated hosts: one seed decides all that happens.

The code is the product's own: the daemon (``plugin.daemon.core``), Slurm's filter and the store.
What is simulated is below it: clocks, threads, sockets, files, the database's failures and a
scheduler. Every call down there may fail, be slow, be partial, or be the last
one of its process. ``python -m simulator`` runs worlds; ``planted`` shows that bugs are found.
"""
