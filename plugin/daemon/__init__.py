"""The daemon ``berth serve``: answers the schedulers' submit filters on a Unix socket.

One thread answers from tables in memory. Other threads refresh those tables, read the cluster's
state and store the decisions. The answering thread opens no file, database or network connection
while it answers. ``docs/protocol.md`` specifies the messages between filters and daemon.
"""
