"""Serves requests of the site's users in a process and on a socket separate from the submit
filter's.

The kernel says who connects (``SO_PEERCRED``); nobody says so himself. Whatever users do here, the
scheduler's questions go to another process over another socket that users cannot reach.
"""
