"""The daemon ``berth serve``: answers the schedulers' submit filters on a Unix socket.

One thread answers, from tables in memory; other threads refresh those tables, read the cluster's
state and write down what was decided. Nothing in the answering thread opens a file, a database
or a network connection. ``docs/protocol.md`` is the contract with the filters.
"""
