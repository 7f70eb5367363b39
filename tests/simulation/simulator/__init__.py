"""Berth's submit path and MIG applies on simulated hosts: one seed decides all that happens.

The code is the product's own: the daemon (``plugin.daemon.core``), both filters, the store and the
applies. What is simulated is below it: clocks, threads, sockets, files, the database's failures, a
scheduler and a GPU's driver. Every call down there may fail, be slow, be partial, or be the last
one of its process. ``python -m simulator`` runs worlds; ``planted`` shows that bugs are found.
"""
